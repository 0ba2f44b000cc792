"""What a model sees of a call: its result, whole or, where that is long, in parts that it asks for (`read_result`)."""

from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions.items import CallItem, dumps
from codelab.turns.draft import Draft

#: Characters of one part. With four bytes each they still fit an item, and with three to a token the default context.
PART_CHARS = 8_000


def shown_result(call: CallItem, outcome: dict[str, Any]) -> str:
    """What the model is to see of a call, whole: the result itself or {error}.

    A human's edit is told, or the model would take its own arguments for executed; a large one by its beginnings. A
    part of another result is shown as it is there: quoted once more it would be hard to read.
    """
    if call.edited_arguments is not None:
        edited = call.decision.get("shown", call.edited_arguments)
        return dumps({"edited_arguments": edited, **outcome})
    if call.tool == "read_result" and "result" in outcome:
        part = outcome["result"]
        end = part["offset"] + len(part["content"])
        return f"{part['content']}\n[characters {part['offset']} to {end} of {part['total']}]"
    return dumps(outcome.get("result", outcome))


def read_result(draft: Draft, arguments: dict[str, Any]) -> dict[str, Any]:
    """A part of what `shown_result` gives for another call.

    Raises ProtocolError: INVALID_CALL_ID, INVALID_ARGUMENTS for an offset beyond its end.
    """
    call = draft.call(arguments["call_id"])
    if call is None or call.outcome is None:
        raise ProtocolError(ErrorCode.INVALID_CALL_ID, "No call with this call_id has a result in this session")
    text = shown_result(call, draft.value(call.outcome))
    offset = arguments.get("offset", 0)
    if offset >= len(text):
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS, f"The result has only {len(text)} characters", details={"field": "offset"}
        )
    limit = min(arguments.get("limit", PART_CHARS), PART_CHARS)
    return {"content": text[offset : offset + limit], "offset": offset, "total": len(text)}
