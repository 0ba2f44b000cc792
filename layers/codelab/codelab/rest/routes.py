"""How a request reaches its function."""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from fastapi.routing import APIRoute


class DirectRoute(APIRoute):
    """A route whose function runs in the thread that read the request.

    Lambda gives a process one request at a time, so nothing else waits. Another thread would cost a millisecond.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        super().__init__(path, _direct(endpoint), **settings)


def _direct(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    if iscoroutinefunction(endpoint):
        return endpoint

    @wraps(endpoint)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return endpoint(*args, **kwargs)

    return run
