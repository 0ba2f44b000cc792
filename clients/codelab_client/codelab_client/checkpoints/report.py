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


def report(outcome: Undone, command: Literal["undo", "redo"]) -> Report:
    """What an undo or a redo tells the user. Nothing that it leaves is left out; what it did is shortened."""
    if outcome.label is None:
        return Report(
            f"There is no turn of this conversation to take {'back' if command == 'undo' else 'up again'}.", ()
        )
    verb = "Taken back" if command == "undo" else "Brought back"
    own = [path for path in outcome.changed_since if path not in outcome.by_sessions]
    lists = (
        Paths("", _shortened(outcome.restored_paths)),
        Paths("Left as they are, because they were changed since", own),
        Paths("Left as they are, because another session has changed them since", outcome.by_sessions),
        Paths("Left as they are: changed while a command ran, by it or by you or another program", outcome.unsure),
        Paths("Not stored, so they are not taken back", outcome.not_stored),
        Paths("Not taken back, because it is not known what they changed", outcome.unknown_changes),
        Paths("Could not be restored", outcome.failed_paths),
    )
    file_lists = [file_list for file_list in lists if file_list.paths]
    if outcome.restored_paths:
        gist = f"{verb}: {outcome.label}"
    else:
        gist = (
            f"Nothing was {verb.lower()} of: {outcome.label}"
            if file_lists
            else f"The turn changed no file: {outcome.label}"
        )
    hint = f"/{command} all takes these as well. {_OTHER[command]}" if outcome.asks else ""
    return Report(gist, file_lists, hint)


_OTHER = {"undo": "/redo brings everything back.", "redo": "/undo takes everything back."}


def _shortened(paths: Sequence[str]) -> Sequence[str]:
    hidden_count = len(paths) - _LISTED
    return paths if hidden_count <= 0 else (*paths[:_LISTED], f"… and {hidden_count} more")
