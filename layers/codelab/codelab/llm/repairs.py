"""What a model is told of native calls that are not valid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codelab.llm.call_schema import CALLS
from codelab.llm.functions import Functions, InvalidCall, arguments_of
from codelab.llm.native_calls import NativeCall
from codelab.llm.schema.validation import repair_message

Message = dict[str, Any]

_NOT_EXECUTED = "Not executed, because the answer is not valid as a whole. Make this call again."


def repair_of_calls(
    text: str,
    calls: Sequence[NativeCall],
    errors: Sequence[str],
    functions: Functions,
    number: int,
    reasoning: Mapping[str, Any],
) -> list[Message]:
    """The answer, and a result for each of its calls that says what is wrong.

    errors: as of a validation, with the pointer of each value first. number: of messages before these, for the ids of
    the calls. reasoning: the fields of the answer's message. A call of a function that does not exist cannot stand in
    a history: its error is told with the others.
    """
    offered = [(index, call) for index, call in enumerate(calls) if functions.tool_of(call.name) is not None]
    if not offered:
        answer = {"role": "assistant", "content": text or "(nothing)"}
        return [answer, {"role": "user", "content": repair_message(list(errors))}]
    own_errors = {index: [line for line in errors if _is_about(line, index)] for index, _ in offered}
    told = {line for lines in own_errors.values() for line in lines}
    other_errors = [line for line in errors if line not in told]
    native_calls, results = [], []
    for place, (index, call) in enumerate(offered):
        call_id = f"repair_{number}_{place}"
        function = {"name": functions.tool_of(call.name), "arguments": _told_arguments(call)}
        native_calls.append({"id": call_id, "type": "function", "function": function, **call.reasoning})
        lines = [*own_errors[index], *(other_errors if place == 0 else ())]
        content = repair_message(lines) if lines else _NOT_EXECUTED
        results.append({"role": "tool", "tool_call_id": call_id, "content": content})
    return [{"role": "assistant", "content": text, "tool_calls": native_calls, **reasoning}, *results]


def _is_about(line: str, index: int) -> bool:
    """Whether an error is about this item of `calls`."""
    return line.startswith((f"/{CALLS}/{index}:", f"/{CALLS}/{index}/"))


def _told_arguments(call: NativeCall) -> str:
    """The arguments as JSON: some providers parse those of a history. What is none is told in the call's error."""
    try:
        return json.dumps(arguments_of(call), ensure_ascii=False)
    except InvalidCall:
        return "{}"
