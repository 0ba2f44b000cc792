"""What a model behind an open endpoint can do, by three requests: a schema, a call, and a text that is hard to write.

Nobody's table knows every model on every server. All answers may be hostile.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codelab_client.setup import endpoint
from codelab_client.setup.errors import Unsupported
from codelab_client.setup.model_file import Model

#: A small model on a slow machine writes some ten tokens a second.
_ANSWER_S = 180.0

#: Lines as they are in source code: quotes in quotes, backslashes before anything, tabs, other alphabets.
TEXT = r"""def cells(row: str) -> list[str]:
	return [c.replace('\\"', '"') for c in re.split(r'(?<!\\)\|', row)]

PATHS = {"home": "C:\\Users\\new\\table", 'log': '/var/log/"app"\n'}
PATTERN = re.compile(r"^\s*\"([^\"\\]|\\.)*\"\s*$")  # "a", "b\"c", "\\"
print(f"{PATHS['home']!r}\t{{not}} \u00e9 'é' — «привет», 100\\%", '\'', "\"")
echo "it's \"$HOME\"" | sed -e 's/\\/\//g' -e "s/'/\"/g" > 'out\\file.txt'
{"text": "line 1\nline 2\\n", "regex": "\\d+\\.\\d{2}\\b", "empty": "", "tab": "\t"}"""

_CALLS = {
    "type": "array",
    "items": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"_tool": {"const": tool}, **{name: {"type": "string"} for name in arguments}},
                "required": ["_tool", *arguments],
                "additionalProperties": False,
            }
            for tool, arguments in (("read_file", ("path",)), ("edit_file", ("path", "old_text", "new_text")))
        ]
    },
}
#: The form of an agent's answer.
SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "calls": _CALLS},
    "required": ["message", "calls"],
    "additionalProperties": False,
}
_EXAMPLE = '{"message": "I will read it.", "calls": [{"_tool": "read_file", "path": "a.txt"}]}'
_TEXT_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
_COPY = "Copy all lines between the two lines of dashes exactly, without the dashes"


@dataclass(frozen=True)
class Abilities:
    """What a model has shown: answers of a schema, native calls of functions, and a text copied exactly."""

    fits_schema: bool
    calls_functions: bool
    copies_text: bool

    @property
    def strategy(self) -> str:
        """How to ask the model, as `LLM_CAPABILITIES` names it; empty for the way its provider's table begins with.

        Native calls if that way fails: answers of a schema are refused, or break the texts in them.
        """
        if self.fits_schema and (self.copies_text or not self.calls_functions):
            return ""
        return "calls" if self.calls_functions else "json"

    @property
    def sentence(self) -> str:
        """For the user."""
        able = [name for name, can in self._names() if can]
        unable = [name for name, can in self._names() if not can]
        return ". ".join(
            f"{label} {', '.join(names)}" for label, names in (("It can", able), ("It cannot", unable)) if names
        )

    def _names(self) -> tuple[tuple[str, bool], ...]:
        return (
            ("answer in the form of a schema", self.fits_schema),
            ("call functions", self.calls_functions),
            ("copy code exactly", self.copies_text),
        )


async def abilities_of(model: Model) -> Abilities:
    """What the model can do. Raises SetupError if it does not answer."""
    fits_schema = _fits(await _answer_of_schema(model, f"Read notes.txt. Answer with JSON such as {_EXAMPLE}", SCHEMA))
    arguments = await _arguments(model, "Call the function read_file for the file notes.txt.", "read_file", "path")
    calls_functions = arguments == {"path": "notes.txt"}
    copies_text = await _copied(model, calls_functions=calls_functions and not fits_schema) == TEXT
    return Abilities(fits_schema, calls_functions, copies_text)


async def _copied(model: Model, *, calls_functions: bool) -> Any:
    """The model's copy of TEXT, without white space around it; None without one."""
    dashes = "-" * 20
    quoted_text = f"{dashes}\n{TEXT}\n{dashes}"
    if calls_functions:
        answer = await _arguments(
            model, f"{_COPY}, as the argument of a call of write_text:\n{quoted_text}", "write_text", "text"
        )
    else:
        question = f'{_COPY}, into JSON of the form {{"text": "…"}}:\n{quoted_text}'
        answer = await _answer_of_schema(model, question, _TEXT_SCHEMA)
    text = answer.get("text") if isinstance(answer, dict) else None
    return text.strip() if isinstance(text, str) else None


async def _answer_of_schema(model: Model, question: str, schema: Mapping[str, Any]) -> Any:
    """The answer, which should fit the schema; None if there is none."""
    api = endpoint.api_of(model)
    try:
        response = await endpoint.chat(model, question, api.schema_fields(schema), _ANSWER_S)
        return json.loads(api.text_of(response))
    except (Unsupported, KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
        return None


async def _arguments(model: Model, question: str, function: str, parameter: str) -> Any:
    """The arguments with which the model calls the function; None if it does not."""
    parameters = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    tool = {"name": function, "description": f"{function} of the user's workspace", "parameters": parameters}
    try:
        response = await endpoint.chat(
            model, question, {"tools": [{"type": "function", "function": tool}], "tool_choice": "auto"}, _ANSWER_S
        )
        return endpoint.api_of(model).arguments_of(response)
    except (Unsupported, KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def _fits(answer: Any) -> bool:
    """Whether an answer fits SCHEMA, and calls something."""
    if not isinstance(answer, dict) or answer.keys() != {"message", "calls"}:
        return False
    calls = answer["calls"]
    parameters = {"read_file": {"_tool", "path"}, "edit_file": {"_tool", "path", "old_text", "new_text"}}
    return (
        isinstance(answer["message"], str)
        and isinstance(calls, list)
        and bool(calls)
        and all(
            isinstance(call, dict)
            and all(isinstance(value, str) for value in call.values())
            and call.keys() == parameters.get(call.get("_tool", ""))
            for call in calls
        )
    )
