"""What going back tells the user, before and after, in the terminal and in editors alike."""

from collections.abc import Sequence

from codelab_client.checkpoints import FilesBack, Paths, Report
from codelab_client.rewind import Preview, Restore, Rewound
from codelab_client.safe_text import safe_line

_STAY = "left as they are"


def previewed(preview: Preview) -> Report:
    """What would happen. Nothing is left out: the user decides about it."""
    files = preview.files or FilesBack()
    own = [path for path in files.changed_since if path not in files.by_sessions]
    by_edits, by_commands = _kept(files.edited_paths, files), _kept(files.command_paths, files)
    lists = (
        Paths(f"{_count(by_edits)} changed by edits: restored", by_edits),
        Paths(
            f"{_count(by_commands)} changed by commands, or by you or another program while they ran: restored from "
            "the snapshot",
            by_commands,
        ),
        Paths("Deleted, because they did not exist then", _gone(files.restored_paths, files)),
        Paths(f"Changed since by you or another program: {_STAY}, unless you want them back, too", own),
        Paths(f"Changed since by another session: {_STAY}, unless you want them back, too", files.by_sessions),
        *_not_undone(preview, files),
    )
    count = preview.message_count
    goes = "this message" if count == 1 else f"this message and {count - 1} after it"
    gist = f"Before “{safe_line(preview.point.text, 80)}”: the conversation goes back by {goes}."
    hint = "" if _any(lists) else "No file has changed since."
    if preview.files is None:
        hint = f"Files cannot be restored: {preview.problem}"
    return Report(gist, [paths for paths in lists if paths.paths], hint)


def done(preview: Preview, rewound: Rewound, restore: Restore, session_id: str) -> Report:
    """What has happened. session_id: of the conversation that was left or stays."""
    files = rewound.files or FilesBack()
    lists = (
        Paths("Restored", _kept(files.restored_paths, files)),
        Paths("Deleted, because they did not exist then", _gone(files.restored_paths, files)),
        Paths("Left as they are, because they were changed since", files.changed_since),
        Paths("Left as they are: changed while a command ran", files.left_paths),
        Paths("Could not be restored", files.failed_paths),
        *(() if rewound.files is None else _not_undone(preview, files)),
    )
    gist = []
    if rewound.session_id is not None:
        gist.append(f"The conversation goes on before that message, in a copy; {session_id} is the whole one.")
    if rewound.problem:
        gist.append(f"No file was restored: {rewound.problem}")
    elif restore == "conversation":
        gist.append("Files stay as they are.")
    elif files.restored_paths:
        gist.append(f"{_count(files.restored_paths)} restored.")
    else:
        gist.append("No file was restored.")
    hint = "" if not files.restored_paths else "/redo brings the files back."
    if hint and rewound.session_id is not None:
        hint = f"In {session_id}, /redo brings the files back."
    return Report(" ".join(gist), [paths for paths in lists if paths.paths], hint)


def told_to_agent(preview: Preview, files: FilesBack) -> str:
    """What the agent reads with the next message if only files went back; empty if none did."""
    if not files.restored_paths:
        return ""
    gone_paths = set(files.deleted_paths)
    paths = [f"- {safe_line(path)}{' (deleted)' if path in gone_paths else ''}" for path in files.restored_paths]
    message = safe_line(preview.point.text, 80)
    return "\n".join([f"I have taken changes of these files back, to before my message “{message}”:", *paths])


def _not_undone(preview: Preview, files: FilesBack) -> tuple[Paths, ...]:
    return (
        Paths("Not stored, so they stay as they are", files.not_stored),
        Paths("Not undone, because it is not known what they changed", files.unknown_changes),
        Paths("Not undone, because there is no checkpoint of it here", preview.unrecorded_calls),
        Paths("Outside of the workspace, what these did is not undone", preview.commands),
    )


def _any(lists: Sequence[Paths]) -> bool:
    return any(paths.paths for paths in lists)


def _kept(paths: Sequence[str], files: FilesBack) -> list[str]:
    return [path for path in paths if path not in set(files.deleted_paths)]


def _gone(paths: Sequence[str], files: FilesBack) -> list[str]:
    return [path for path in paths if path in set(files.deleted_paths)]


def _count(paths: Sequence[str]) -> str:
    return f"{len(paths)} {'file' if len(paths) == 1 else 'files'}"
