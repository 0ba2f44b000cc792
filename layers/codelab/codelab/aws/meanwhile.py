"""Work that a thread does while a call of AWS is under way, instead of only waiting for the answer.

with Meanwhile(lambda: prepare_invoke(step)) as prepared:
    store.commit(transition)
start = prepared()
"""

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

_thread = threading.local()


class Meanwhile(Generic[T]):
    """Work that is done once: when the next call of this thread has been sent, else when its result is asked for."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._is_done = False
        self._result: T
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        _thread.waiting = self
        return self

    def __exit__(self, *_: object) -> None:
        _thread.waiting = None

    def __call__(self) -> T:
        """The result. Raises what the work raised."""
        self._do()
        if self._error is not None:
            raise self._error
        return self._result

    def _do(self) -> None:
        """Do it if it is not done yet. Keeps its error for whoever asks for the result: the call goes on."""
        if self._is_done:
            return
        self._is_done = True
        try:
            self._result = self._work()
        except Exception as error:
            self._error = error


def use_the_wait() -> None:
    """Do what this thread can do while it waits for the answer to the request that it has just sent."""
    waiting: Meanwhile[Any] | None = getattr(_thread, "waiting", None)
    if waiting is not None:
        _thread.waiting = None  # it may call AWS itself
        waiting._do()
