"""What the model has read of the workspace, and what the user has seen: a call changes a file only if it still is that.

An approval is about the change that was shown. If the file became another one since, by anybody but this session's own
calls, the call needs a new answer. Without a user, a file is replaced or deleted only as the model knows it.

The register belongs to one process. After a restart the model has read nothing, and can read again.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from codelab_client.tools import fingerprints, patches
from codelab_client.tools.arguments import ALIASES
from codelab_client.tools.failure import Changed, ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.replacement import Names

if TYPE_CHECKING:
    from codelab_client.tools.workspace import Workspace

#: Fingerprints by name, as they were when a call was shown.
View = Mapping[Names, str | None]

#: In place of a fingerprint that is not known; equal to none.
_UNKNOWN = "unknown"
#: Own changes of one file, and calls and reviews, that are remembered.
_CHANGES, _CALLS = 200, 500
_ARGUMENTS = {"write_file": ("path",), "edit_file": ("path",), "delete_file": ("path",), "move_file": ("from", "to")}
_DIFFS = ("apply_patch", "apply_patch_review")


class Expectations:
    """The register of one session. Fingerprints are those of `fingerprints`; None: there is no file."""

    def __init__(self) -> None:
        self._known_fingerprints: dict[Names, str | None] = {}
        self._changes: defaultdict[Names, deque[tuple[str | None, str | None]]] = defaultdict(
            lambda: deque(maxlen=_CHANGES)
        )
        self._shown_views: dict[str, View] = {}  # by call_id
        self._reviewed_views: dict[str, View] = {}  # by the diff's digest

    def note_read(self, names: Names, fingerprint: str) -> None:
        """The model was given the file, or told that it is not text."""
        self._known_fingerprints[names] = fingerprint

    def note_change(self, names: Names, before: str | None, after: str | None) -> None:
        """A call of this session has changed a file or a directory."""
        self._changes[names].append((before, after))
        for path in [path for path in self._known_fingerprints if path[: len(names)] == names]:
            del self._known_fingerprints[path]
        if after is not None:
            self._known_fingerprints[names] = after

    def note_move(self, source: Names, target: Names, fingerprint: str | None) -> None:
        """A call of this session has moved a file or a directory, whose content stayed."""
        old_states = {
            names: state for names, state in self._known_fingerprints.items() if names[: len(source)] == source
        }
        self.note_change(source, fingerprint, None)
        self.note_change(target, None, fingerprint)
        self._known_fingerprints |= {(*target, *names[len(source) :]): state for names, state in old_states.items()}

    def note_shown(self, call_id: str, before: View, after: View) -> None:
        """A call was shown to the user. before, after: what it touches, looked at before and after that.

        What changed meanwhile may not be what was shown.
        """
        sure = {names: state if after.get(names) == state else _UNKNOWN for names, state in before.items()}
        _add(self._shown_views, call_id, sure)

    def note_edit(self, call_id: str, view: View) -> None:
        """The user has changed a call's arguments: what it touches now besides what was shown is as the user knows."""
        _add(self._shown_views, call_id, {**view, **self._shown_views.get(call_id, {})})

    def note_review(self, diff: str, view: View) -> None:
        """The user has chosen what becomes of a diff; `view` is what it touches."""
        _add(self._reviewed_views, _digest(diff), view)

    def was_shown(self, call_id: str) -> bool:
        """Whether the user has seen the call here."""
        return call_id in self._shown_views

    def check_shown(self, call_id: str, names: Names, now: str | None, diff: str = "") -> None:
        """Raise Changed if the user has seen the call, or reviewed its diff, with another file."""
        view = self._shown_views[call_id] if call_id in self._shown_views else self._reviewed_views.get(_digest(diff))
        if view is not None and not self._leads(names, view.get(names, _UNKNOWN), now):
            raise Changed(f"{joined(names)} was changed after it was shown to the user")

    def check_known(self, names: Names, now: str | None) -> None:
        """Raise ToolFailure unless the model knows the file, or it loses nothing with it."""
        if not fingerprints.needs_reading(now) or self._known_fingerprints.get(names) == now:
            return
        problem = (
            "was changed since you read it: read it again"
            if names in self._known_fingerprints
            else "exists: read it first"
        )
        raise ToolFailure("EXECUTION_FAILED", f"{joined(names)} {problem}. Nothing was changed")

    def _leads(self, names: Names, then: str | None, now: str | None) -> bool:
        """Whether only this session's calls have made `now` of `then`."""
        if then == now:
            return True
        if then and now and fingerprints.is_directory(then) and fingerprints.is_directory(now):
            return all((*names, *below) in self._changes for below in fingerprints.differing(then, now))
        for before, after in reversed(self._changes.get(names, ())):
            if after == now:
                now = before
                if now == then:
                    return True
        return False


def touched(tool: str, arguments: Mapping[str, Any]) -> list[Names]:
    """The files that a call would change; none if it cannot be executed anyway."""
    tool = ALIASES.get(tool, tool)
    try:
        if tool in _DIFFS:
            files = patches.parse(str(arguments.get("diff", "")))
            return list(dict.fromkeys(names for file in files for names in (file.old, file.new) if names))
        return [components(str(arguments.get(name, ""))) for name in _ARGUMENTS.get(tool, ())]
    except ToolFailure:
        return []


def view(tool: str, arguments: Mapping[str, Any], fingerprint: Callable[[Names], str | None]) -> View:
    """What a call touches now."""
    return {names: _or_unknown(names, fingerprint) for names in touched(tool, arguments)}


async def view_of(workspace: "Workspace", tool: str, arguments: Mapping[str, Any]) -> View:
    """The same in a workspace that may be an editor's."""
    view: dict[Names, str | None] = {}
    for names in touched(tool, arguments):
        try:
            view[names] = await workspace.fingerprint(names)
        except ToolFailure:
            view[names] = _UNKNOWN
    return view


@contextmanager
def showing(
    expectations: Expectations,
    call_id: str,
    tool: str,
    arguments: Mapping[str, Any],
    fingerprint: Callable[[Names], str | None],
) -> Iterator[None]:
    """While a call is being shown to the user: what it touches is what the approval is about."""
    before = view(tool, arguments, fingerprint)
    yield
    expectations.note_shown(call_id, before, view(tool, arguments, fingerprint))


def _or_unknown(names: Names, fingerprint: Callable[[Names], str | None]) -> str | None:
    try:
        return fingerprint(names)
    except ToolFailure:
        return _UNKNOWN


def _digest(diff: str) -> str:
    return fingerprints.of_data(diff.encode(errors="replace"))


def _add(views: dict[str, View], key: str, view: View) -> None:
    views.pop(key, None)
    views[key] = view
    if len(views) > _CALLS:
        del views[next(iter(views))]
