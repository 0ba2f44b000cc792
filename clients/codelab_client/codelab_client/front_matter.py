"""The fields before a Markdown text, between two lines `---`: one `name: value` a line, and no more of YAML."""

import re
from collections.abc import Mapping

_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)$")
_END = "\n---"


def split(text: str) -> tuple[Mapping[str, str], str]:
    """The fields, by their names, and the text after them. Quotes around a value are none of it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return {}, text
    head, end, remainder = text[3:].partition(_END)
    if not end:
        return {}, text
    fields = (_FIELD.match(line) for line in head.split("\n"))
    _, _, body = remainder.partition("\n")
    return {field[1]: field[2].strip().strip("'\"") for field in fields if field}, body
