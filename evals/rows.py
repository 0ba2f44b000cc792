"""Files with an object of JSON in each line, to which a process that may die adds lines."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """The objects. A last line that was cut is none; a file that is not there has none."""
    if not path.is_file():
        return []
    # Not splitlines(): what a model said may have a U+2028, which JSON does not escape.
    lines = path.read_text("utf-8", errors="replace").split("\n")[:-1]
    return [json.loads(line) for line in lines if line]


def given(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that somebody else wrote. Raises ValueError with the line that is none."""
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is no object")
        yield row


def text(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """The lines. What is no Unicode, as half a character of a model's answer, becomes `?`."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects).encode("utf-8", "replace")
