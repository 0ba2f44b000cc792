"""Single edits: a file with an object in each line, of a program before and after a change that is told in words.

The names are those of CanItEdit (https://huggingface.co/datasets/nuprl/CanItEdit): `before`, `after`, `tests` (Python
that runs behind the program; without it, the text must be `after`), `instruction_descriptive` or `instruction_lazy`, or
just `instruction`, and `full_name` or `name`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evals import harbor, rows
from evals.loaders.graders import script_files
from evals.loaders.left_out import LeftOut
from evals.suite.task import Task, export

_MAIN = "main.py"


def single_edits(lines: Path, folder: Path, *, lazy: bool = False) -> Iterator[Path | LeftOut]:
    """Write each edit below `folder`. lazy: tell it in the few words of a hurried user. Raises harbor.TaskError."""
    for number, row in enumerate(rows.given(lines)):
        name = harbor.folder_name(str(row.get("full_name") or row.get("name") or "edit"), number)
        try:
            yield _edit(row, folder / name, lazy=lazy)
        except (KeyError, ValueError, TypeError) as error:
            yield LeftOut(name, repr(error))


def _edit(row: Mapping[str, Any], folder: Path, *, lazy: bool) -> Path:
    first, second = ("instruction_lazy", "instruction_descriptive")[:: 1 if lazy else -1]
    words = str(row.get(first) or row.get(second) or row["instruction"]).strip()
    message = f"Change {_MAIN}:\n\n{words}"
    before, after = str(row["before"]), str(row["after"])
    if before == after:
        raise ValueError("nothing changes")
    if not row.get("tests"):
        task = Task(folder.name, "single edit", message, {_MAIN: before}, expected={_MAIN: (after,)})
        [made] = export([task], folder.parent)
        return made
    return harbor.write(
        folder,
        f"edits/{folder.name}",
        message,
        metadata={"kind": "single edit", "language": "en"},
        files={_MAIN: before},
        tests=script_files(_MAIN, str(row["tests"])),
        solution={_MAIN: after},
    )
