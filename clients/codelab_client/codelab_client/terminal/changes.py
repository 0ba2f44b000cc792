"""What a call that waits for approval would do to a file of the workspace."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.differences import Difference, difference, lossless, spelled_out
from codelab_client.safe_text import exact_line
from codelab_client.tools.risks import normal_path

if TYPE_CHECKING:
    from codelab_client.tools.edits import Edit

_FILE_BYTES = 1_000_000


class _Unreadable(Exception):
    """There is something, but no text to compare with. The text says why."""


def written(workspace: Path, path: str, content: str) -> Difference:
    """What changes if `write_file` writes this content, which keeps a file's mark and line ends."""
    from codelab_client.tools import texts

    try:
        data = _data(workspace, path)
        return difference(None if data is None else _text(data), texts.written(data, content), path)
    except _Unreadable as unreadable:
        whole = difference(None, content, path)
        return Difference(whole.lines, [f"{exact_line(unreadable)}: not compared, all of it is replaced", *whole.notes])


def edited(workspace: Path, path: str, items: Any) -> Difference:
    """What changes if these edits are made; the edits themselves if they do not fit the file."""
    from codelab_client.tools.edits import Edit, apply
    from codelab_client.tools.failure import ToolFailure

    edits = [
        Edit(str(edit.get("old", "")), str(edit.get("new", "")), edit.get("replace_all") is True)
        for edit in (items if isinstance(items, list) else ())
        if isinstance(edit, dict) and edit.get("old")
    ]
    try:
        data = _data(workspace, path)
        if data is None or not edits:
            return _as_written(edits, "")
        return difference(before := _text(data), apply(before, edits, path).text, path)
    except _Unreadable as unreadable:
        return _as_written(edits, str(unreadable))
    except ToolFailure as failure:
        return _as_written(edits, failure.message)


def _as_written(edits: "Sequence[Edit]", reason: str) -> Difference:
    lines = []
    for edit in edits:
        lines += ["@@ everywhere @@" if edit.replace_all else "@@", *(f"-{line}" for line in edit.old.split("\n"))]
        lines += [f"+{line}" for line in edit.new.split("\n")]
    difference = spelled_out(lines)
    return Difference(difference.lines, [*([exact_line(reason)] if reason else []), *difference.notes])


def _text(data: bytes) -> str:
    from codelab_client.tools.texts import read_text

    decoding = read_text(data)
    return lossless(data) if decoding is None else decoding.text


def _data(workspace: Path, path: str) -> bytes | None:
    """The content of a file of the workspace; None if there is none. Raises _Unreadable."""
    try:
        file = (workspace / normal_path(path)).resolve()
        if not file.is_relative_to(workspace):
            raise _Unreadable("It leads out of the workspace")
        if not file.exists():
            return None
        if not file.is_file():
            raise _Unreadable("It is there and is no file")
        if (size := file.stat().st_size) > _FILE_BYTES:
            raise _Unreadable(f"The present file has {size:,} bytes")
        return file.read_bytes()
    except (OSError, ValueError) as error:
        raise _Unreadable(f"The present file cannot be read: {error}") from None
