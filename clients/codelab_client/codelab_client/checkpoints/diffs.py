"""The changes of a turn as a unified diff, as git writes it."""

from collections.abc import Iterable, Iterator

from codelab_client.checkpoints.files import FileState
from codelab_client.checkpoints.record import Change, Record, by_path
from codelab_client.differences import hunks
from codelab_client.tools.paths import joined

#: Lines of a file beyond which a comparison takes too long.
_MOST_LINES = 20_000


def unified(record: Record, changes: Iterable[Change]) -> str:
    """A unified diff of what changes have made of each path together."""
    parts: list[str] = []
    for names, of_path in sorted(by_path(changes).items()):
        old, new = of_path[0].old, of_path[-1].new
        if not old.matches(new) and {old.kind, new.kind} != {"absent", "directory"}:
            parts += _of_path(joined(names), old, new, _text(record, old), _text(record, new))
    return "".join(parts)


def _of_path(path: str, old: FileState, new: FileState, before: str | None, after: str | None) -> Iterator[str]:
    yield f"diff --git a/{path} b/{path}\n"
    if old.kind == "absent":
        yield f"new file mode {_mode(new)}\n"
    elif new.kind == "absent":
        yield f"deleted file mode {_mode(old)}\n"
    elif _mode(old) != _mode(new):
        yield f"old mode {_mode(old)}\nnew mode {_mode(new)}\n"
    if before is None or after is None:
        yield f"Binary files a/{path} and b/{path} differ\n"
        return
    old_lines, new_lines = _lines(before), _lines(after)
    changed_hunks = hunks(old_lines, new_lines) if max(len(old_lines), len(new_lines)) <= _MOST_LINES else None
    if changed_hunks is None:
        yield f"Files a/{path} and b/{path} are too long to compare\n"
        return
    if changed_hunks:
        yield "--- /dev/null\n" if old.kind == "absent" else f"--- a/{path}\n"
        yield "+++ /dev/null\n" if new.kind == "absent" else f"+++ b/{path}\n"
    for line in changed_hunks:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _text(record: Record, state: FileState) -> str | None:
    """The text of a state, which is empty where no file is; None if it is not text, or not stored."""
    if state.kind not in ("file", "link"):
        return ""
    data = record.content(state.digest)
    return None if data is None or b"\0" in data else data.decode(errors="replace")


def _lines(text: str) -> list[str]:
    """The lines with their ends. Only \\n ends a line."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _mode(state: FileState) -> str:
    if state.kind == "link":
        return "120000"
    executes = state.mode == "x" or (state.mode not in ("", "-") and bool(int(state.mode, 8) & 0o100))
    return "100755" if executes else "100644"
