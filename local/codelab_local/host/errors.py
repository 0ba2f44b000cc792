"""The error that stops the local cloud from starting."""


class StartError(Exception):
    """The local cloud cannot start. The message names the problem and the solution in one line.

    `exit_code` is 2 for invalid arguments or settings, otherwise 1.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code


class StateError(StartError):
    """What STATE_DIR keeps cannot be used by this version, or is broken."""
