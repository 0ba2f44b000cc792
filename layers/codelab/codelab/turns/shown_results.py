"""What the model sees of a call: its result, and with `read_result` the parts of a long one."""

import re
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions.items import CallItem, dumps
from codelab.turns import children
from codelab.turns.attachments import without_images
from codelab.turns.draft import Draft
from codelab.turns.result_texts import text_of

#: The most characters of one part. At four bytes each they fit an item, at three per token the default context.
PART_CHARS = 8_000
#: Line numbers beyond this one are not believed.
_MOST_LINES = 10**9
#: A name of an encoding, and no sentence.
_ENCODING = re.compile(r"[A-Za-z0-9_-]{1,20}", re.ASCII)


def shown_result(call: CallItem, outcome: dict[str, Any]) -> str:
    """All that the model may see of a call: the result itself, or {error}.

    It includes a human's edit (shortened if large), so that the model does not believe its own arguments were executed.
    A part of another result is shown as plain text, because quoting it again would make it hard to read.
    """
    if call.edited_arguments is not None:
        edited_arguments = call.decision.get("shown", call.edited_arguments)
        return dumps({"edited_arguments": edited_arguments, **outcome})
    if call.tool == "read_result" and "result" in outcome:
        part = outcome["result"]
        end = part["offset"] + len(part["content"])
        return f"{part['content']}\n[characters {part['offset']} to {end} of {part['total']}]"
    if call.tool == "read_file" and (lines := _numbered(outcome.get("result"))):
        return lines
    if call.result_form and call.declaration is None and (text := text_of(call.tool, outcome.get("result"))):
        return text
    return dumps(outcome.get("result", outcome))


def _numbered(result: Any) -> str:
    """The lines of a file with their numbers; empty unless the IDE says where its `content` begins."""
    if not isinstance(result, dict) or not isinstance(content := result.get("content"), str):
        return ""
    first_line, total = result.get("first_line"), result.get("total_lines")
    if type(first_line) is not int or not 0 < first_line < _MOST_LINES:
        return ""
    lines = content.split("\n")
    ends_with_newline = lines[-1] == ""
    if ends_with_newline:
        lines.pop()
    notes = [f"[lines {first_line} to {first_line + len(lines) - 1} of {total}]"] if type(total) is int else []
    if lines and all(line.endswith("\r") for line in (lines if ends_with_newline else lines[:-1] or lines)):
        lines = [line.removesuffix("\r") for line in lines]
        notes.append("[lines end with CRLF]")
    encoding = result.get("encoding")
    if isinstance(encoding, str) and _ENCODING.fullmatch(encoding) and encoding.casefold() not in ("utf-8", "utf8"):
        notes.append(f"[the file is in {encoding}, and is written back in it]")
    return "\n".join([*(f"{number}\t{line}" for number, line in enumerate(lines, first_line)), *notes])


def read_result(draft: Draft, arguments: dict[str, Any]) -> dict[str, Any]:
    """The tool `read_result`: a part of what `shown_result` returns for another call.

    Raises ProtocolError: INVALID_CALL_ID, INVALID_ARGUMENTS for an offset beyond its end.
    """
    owner = children.owner(draft)
    call = owner.call(arguments["call_id"])
    if call is None or call.outcome is None:
        raise ProtocolError(ErrorCode.INVALID_CALL_ID, "No call with this call_id has a result in this session")
    visible_outcome, _ = without_images(owner.value(call.outcome))
    text = shown_result(call, visible_outcome)
    offset = arguments.get("offset", 0)
    if offset >= len(text):
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS, f"The result has only {len(text)} characters", details={"field": "offset"}
        )
    limit = min(arguments.get("limit", PART_CHARS), PART_CHARS)
    return {"content": text[offset : offset + limit], "offset": offset, "total": len(text)}
