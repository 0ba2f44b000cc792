"""Why nothing was set up."""


class SetupError(Exception):
    """Nothing was changed. The text says why, and what to do."""


class Unsupported(SetupError):
    """An endpoint refuses a kind of request."""
