"""What executes each tool: a table from a tool's name to its handler. A client without something has fewer entries."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from codelab_client.tools.running_call import RunningCall

#: The checked arguments of a call.
Arguments = dict[str, Any]


def _never(arguments: Arguments) -> bool:
    return False


def always(arguments: Arguments) -> bool:
    """Of a tool that may change any file."""
    return True


class Handler(NamedTuple):
    """What executes a tool. It raises ToolFailure.

    may_change: may a call with these arguments change any file, so that undo must look before and after it?
    """

    execute: Callable[[Arguments, RunningCall], Awaitable[Any]]
    may_change: Callable[[Arguments], bool] = _never


#: By the tool's name.
Handlers = Mapping[str, Handler]


def simple(execute: Callable[[Arguments], Awaitable[Any]]) -> Handler:
    """The handler of a tool that needs only its arguments."""
    return Handler(lambda arguments, _: execute(arguments))
