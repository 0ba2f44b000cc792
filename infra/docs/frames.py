"""docs/frames.md: every frame with its fields and examples."""

import json
from typing import Any

from infra.docs.markdown import fields, note, one_line, page_heading, table
from infra.docs.schemas import EXTENSION, frames_of

Schema = dict[str, Any]

_ABOUT = """\
Every frame with its fields. [protocol.md](protocol.md) explains how frames work together. Machine-readable versions:
[asyncapi.yaml](asyncapi.yaml), [schemas/frames.json](schemas/frames.json) and
[protocol.ts](../clients/typescript/src/protocol.ts).

A field with a `?` is optional. In a client's frame, null means absent; the server sends null only where documented.
Ignore fields that are not listed. *ext* marks an extension frame, sent only to connections that asked for extensions.
"""


def page(bundle: Schema) -> str:
    """The page for the frames of a `schemas.bundle`."""
    definitions = bundle["$defs"]
    parts = [note("layers/codelab/codelab/protocol"), page_heading("Frames"), _ABOUT]
    framed = {"ClientFrame", "ServerFrame"}
    for title, direction in (("From the client", "ClientFrame"), ("From the server", "ServerFrame")):
        parts.append(f"## {title}\n")
        for name, schema in frames_of(bundle, direction).items():
            parts.append(_frame(f"`{name}`{' *ext*' if schema.get(EXTENSION) else ''}", schema, definitions))
            framed.add(schema["title"])
    parts.append("## In place of a large client frame\n")
    parts.append(_frame("With a `payload_ref`", definitions["ReferencedFrame"], definitions))
    framed.add("ReferencedFrame")
    parts.append("## From API Gateway\n")
    parts.append(_frame("Without a `type`", definitions["GatewayErrorFrame"], definitions))
    framed.add("GatewayErrorFrame")
    parts.append("## Parts of frames\n")
    for name, schema in definitions.items():
        if name not in framed and "properties" in schema:
            parts.append(_frame(name, schema, definitions))
    return "\n".join(parts)


def _frame(heading: str, schema: Schema, definitions: Schema) -> str:
    lines = [f"### {heading}", "", one_line(schema.get("description", "")), ""]
    rows = [row for row in fields(schema, definitions) if row[0] != "`type`"]
    if rows:
        lines += [*table(("field", "type", ""), rows), ""]
    if "examples" in schema:
        lines += ["```json", *(json.dumps(example, ensure_ascii=False) for example in schema["examples"]), "```", ""]
    return "\n".join(lines)
