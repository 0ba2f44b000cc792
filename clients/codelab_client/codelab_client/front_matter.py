"""The fields before a Markdown text, between two lines `---`: one `name: value` a line, and no more of YAML."""

import re
from collections.abc import Mapping

_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)$")
_END = "\n---"


def split(text: str) -> tuple[Mapping[str, str], str]:
    """The fields, by their names, and the text after them. Quotes around a value are none of it."""
    head, body = _parts(text)
    fields = (_FIELD.match(line) for line in head)
    return {field[1]: field[2].strip().strip("'\"") for field in fields if field}, body


def lines_below(text: str) -> Mapping[str, list[str]]:
    """The lines below each field that belong to it: those that are indented, or begin with a hyphen."""
    lines: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _parts(text)[0]:
        if (field := _FIELD.match(line)) is not None:
            current = lines[field[1]] = []
        elif line.strip() and (line[0] in " \t-"):
            current.append(line)
    return lines


def _parts(text: str) -> tuple[list[str], str]:
    """The lines before the text, and the text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return [], text
    head, end, remainder = text[3:].partition(_END)
    if not end:
        return [], text
    return head.split("\n"), remainder.partition("\n")[2]
