"""An invoke that is prepared while the commit before it is under way, instead of only waiting for its answer."""

from collections.abc import Callable


class PreparedInvoke:
    """An asynchronous invoke. `prepare` returns the function that makes it; both may raise AwsError."""

    def __init__(self, prepare: Callable[[], Callable[[], object]]) -> None:
        self._prepare = prepare
        self._send: Callable[[], object] | None = None
        self._error: Exception | None = None

    def prepare(self) -> None:
        """Prepare it, unless that was tried before. Never raises: the call that is under way goes on."""
        if self._send is not None or self._error is not None:
            return
        try:
            self._send = self._prepare()
        except Exception as error:
            self._error = error

    def start(self) -> None:
        """Make it. Raises what preparing it raised, and AwsError."""
        self.prepare()
        if self._send is None:
            assert self._error is not None
            raise self._error
        self._send()
