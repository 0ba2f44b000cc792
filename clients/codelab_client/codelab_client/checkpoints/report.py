"""What an undo or a redo tells the user, in the terminal and in editors alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codelab_client.checkpoints.undoing import Undone

#: Paths that are listed of those that nobody has to decide about.
_LISTED = 50


@dataclass(frozen=True)
class Paths:
    """Some paths, and what is true of them."""

    title: str
    paths: Sequence[str]


@dataclass(frozen=True)
class Report:
    """What to tell. gist: in one sentence. lists: paths by what became of them. hint: what the user can do next."""

    gist: str
    lists: Sequence[Paths]
    hint: str = ""


def report(undone: Undone, command: Literal["undo", "redo"]) -> Report:
    """What an undo or a redo tells the user. Nothing that it leaves is left out; what it did is shortened."""
    if undone.label is None:
        return Report(
            f"There is no turn of this conversation to take {'back' if command == 'undo' else 'up again'}.", ()
        )
    done = "Taken back" if command == "undo" else "Brought back"
    own = [path for path in undone.changed_since if path not in undone.by_sessions]
    lists = (
        Paths("", _shortened(undone.restored)),
        Paths("Left as they are, because they were changed since", own),
        Paths("Left as they are, because another session has changed them since", undone.by_sessions),
        Paths("Left as they are: changed while a command ran, by it or by you or another program", undone.unsure),
        Paths("Not stored, so they are not taken back", undone.not_stored),
        Paths("Not taken back, because it is not known what they changed", undone.unknown),
        Paths("Could not be restored", undone.failed),
    )
    kept = [one for one in lists if one.paths]
    if undone.restored:
        gist = f"{done}: {undone.label}"
    else:
        gist = f"Nothing was {done.lower()} of: {undone.label}" if kept else f"The turn changed no file: {undone.label}"
    hint = f"/{command} all takes these as well. {_OTHER[command]}" if undone.asks else ""
    return Report(gist, kept, hint)


_OTHER = {"undo": "/redo brings everything back.", "redo": "/undo takes everything back."}


def _shortened(paths: Sequence[str]) -> Sequence[str]:
    more = len(paths) - _LISTED
    return paths if more <= 0 else (*paths[:_LISTED], f"… and {more} more")
