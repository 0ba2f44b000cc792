"""What stops the local cloud from starting, said in one line to a person."""


class StartError(Exception):
    """The local cloud cannot start: the message names the problem and the cure, on one line.

    `exit_code` is 2 for a mistake in how it was called, 1 for everything else.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code
