"""Building blocks for the generated Markdown pages."""

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]


def note(source: str) -> str:
    """The first line of a generated page."""
    return f"<!-- Written by `make docs` from {source}; do not edit. -->\n"


def page_heading(text: str) -> str:
    """The beginning of a generated page, which is a reference."""
    return f"# {text}\n\n*Reference*\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table."""
    head = list(head)
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows)]


def anchor(heading: str) -> str:
    """The link to a heading."""
    return "#" + "".join(char for char in heading.lower().replace(" ", "-") if char.isalnum() or char in "-_")


def one_line(text: str) -> str:
    return " ".join(text.split())


def fields(schema: Schema, definitions: Schema) -> list[tuple[str, str, str]]:
    """The rows of an object's properties: name, type, meaning. `definitions` resolve the references."""
    return [
        (f"`{name}{'' if name in schema.get('required', []) else '?'}`", type_of(field, definitions), _meaning(field))
        for name, field in schema["properties"].items()
    ]


def type_of(schema: Schema, definitions: Schema) -> str:
    """A schema's type in a few words."""
    if "$ref" in schema:
        return _named(schema["$ref"].rsplit("/", 1)[1], definitions)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return _or(f"`{value}`" for value in schema["enum"] if value is not None)
    if "anyOf" in schema and "properties" not in schema:
        return _or(type_of(branch, definitions) for branch in schema["anyOf"] if branch != {"type": "null"})
    match schema.get("type", "any JSON"):
        case "array":
            return f"array of {type_of(schema.get('items', {}), definitions)}"
        case "object" if "properties" in schema:
            names = (f"`{name}{'' if name in schema.get('required', []) else '?'}`" for name in schema["properties"])
            return "{" + ", ".join(names) + "}"
        case "string" if "maxLength" in schema:
            return f"string, {schema.get('minLength', 0)} to {schema['maxLength']:,} characters"
        case "integer" if "minimum" in schema and "maximum" in schema:
            return f"integer, {schema['minimum']:,} to {schema['maximum']:,}"
        case "integer" if "minimum" in schema:
            return f"integer from {schema['minimum']:,}"
        case list(kinds):
            return _or(kinds)
        case kind:
            return str(kind)


def _named(name: str, definitions: Schema) -> str:
    if name == "ErrorCode":
        return "an [error code](errors.md)"
    found = definitions[name]
    return type_of(found, definitions) if "enum" in found else f"[{name}]({anchor(name)})"


def _meaning(field: Schema) -> str:
    text = str(field.get("description", ""))
    return text if not text or text.endswith(".") else f"{text}."


def _or(words: Iterable[str]) -> str:
    *most, last = dict.fromkeys(words)
    return f"{', '.join(most)} or {last}" if most else last


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(one_line(cell).replace("|", "\\|") for cell in cells) + " |"
