"""The interface through which the agent's changes of files are recorded, so that they can be undone."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from codelab_client.tools.tree import Change, Names

_NOTHING: Mapping[Names, bytes] = {}

#: Which of the agent's own calls changes files in the current task: its `call_id`, for a subagent's call that of
#: `delegate`. Empty outside of a call. Threads and tasks that a call starts inherit it.
running_call: ContextVar[str] = ContextVar("running_call", default="")


class Recorder(Protocol):
    """Knows the files before and after each change. A change is made inside the block that a method gives.

    The blocks belong in a thread: they wait for files, and for the other sessions in the same folder.
    """

    def changing(
        self, changes: Sequence[Change], *, alone: bool = True, editor_contents: Mapping[Names, bytes] = _NOTHING
    ) -> AbstractContextManager[Sequence[Change]]:
        """Around all changes or none. Gives them with the version that each replaces, which is the recorded one.

        alone: nobody else's change comes in between. That is not to be had for a change that may take long.
        editor_contents: texts that the disk does not have yet, and that are replaced all the same.
        """
        ...

    def deleting(self, names: Names) -> AbstractContextManager[None]:
        """Around the deletion of a file, or a directory with everything in it."""
        ...

    def moving(self, source: Names, target: Names) -> AbstractContextManager[None]:
        """Around the move of a file or a directory."""
        ...

    def making(self, names: Names) -> AbstractContextManager[None]:
        """Around the creation of a directory and those above it."""
        ...


class Unrecorded:
    """Nobody takes anything back. See Recorder."""

    @contextmanager
    def changing(
        self, changes: Sequence[Change], *, alone: bool = True, editor_contents: Mapping[Names, bytes] = _NOTHING
    ) -> Iterator[Sequence[Change]]:
        """See Recorder."""
        yield changes

    @contextmanager
    def deleting(self, names: Names) -> Iterator[None]:
        """See Recorder."""
        yield

    @contextmanager
    def moving(self, source: Names, target: Names) -> Iterator[None]:
        """See Recorder."""
        yield

    @contextmanager
    def making(self, names: Names) -> Iterator[None]:
        """See Recorder."""
        yield
