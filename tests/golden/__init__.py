"""Files of all names that are stored or sent: a change of the code that changes one of them is seen."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.golden import names, played


class Golden(NamedTuple):
    """A file of names, and what finds those of the code as it is."""

    path: Path
    names: Callable[[], str]


_FOLDER = Path(__file__).parent
GOLDEN = (Golden(_FOLDER / "names.txt", names.names), Golden(_FOLDER / "played.txt", played.names))


ON_PURPOSE = """\
Names that are stored or sent have changed (- before, + now):

{changed}
Stored sessions, clients, alarms and operators still use the old ones. If the change is intended, write the new ones
with `.venv/bin/python -m tests.golden --write`, and say in CHANGELOG.md how the old ones go on working."""


def difference(path: Path, current: str) -> str:
    """A line for each name that the file has and the code has not (-), and the other way round (+); empty if none."""
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(expected.splitlines(True), current.splitlines(True), path.name, "the code", n=0)
    return "".join(line for line in lines if not line.startswith("@@"))
