"""Files with an object of JSON in each line, to which a process that may die adds lines."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """The objects. A last line that was cut is none; a file that is not there has none."""
    if not path.is_file():
        return []
    # Not splitlines(): what a model said may have a U+2028, which JSON does not escape.
    lines = path.read_text("utf-8", errors="replace").split("\n")[:-1]
    return [json.loads(line) for line in lines if line]


def text(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """The lines. What is no Unicode, as half a character of a model's answer, becomes `?`."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects).encode("utf-8", "replace")
