"""What endpoints speak: where each has its models and answers a question, and what both look like."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: The most tokens of an answer to the question, thoughts included.
_ANSWER_TOKENS = 2_000


def _only_call(message: Any) -> Any:
    """The arguments of the call, as the API has them."""
    [call] = message["tool_calls"]
    return call["function"]["arguments"]


@dataclass(frozen=True)
class Api:
    """The API of an endpoint.

    title: in an error's words. ending: what addresses of such endpoints usually end with. models_path, chat_path: below
    the address; `{model}` stands for the model's name, which then is no field. models_field, name_field: of the list of
    models, and of one. text_of: the text of an answer; raises KeyError, IndexError, TypeError or AttributeError.
    key_header: None for a bearer. headers, fields: sent beside the others. question_fields: those with the question.
    schema_fields: those that ask for an answer of a schema. arguments_of: of the only function that an answer calls;
    raises what text_of raises, or ValueError.
    """

    title: str
    ending: str
    models_path: str
    chat_path: str
    models_field: str
    name_field: str
    text_of: Callable[[Any], Any]
    key_header: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    question_fields: Callable[[str], Mapping[str, Any]] = lambda text: {"messages": [{"role": "user", "content": text}]}
    schema_fields: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda schema: {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    }
    arguments_of: Callable[[Any], Any] = lambda response: json.loads(_only_call(response["choices"][0]["message"]))


def _text_of_items(response: Any) -> str:
    messages = (item for item in response["output"] if item["type"] == "message")
    return "".join(part["text"] for item in messages for part in item["content"] if part["type"] == "output_text")


def _text_of_blocks(response: Any) -> str:
    return "".join(block["text"] for block in response["content"] if block["type"] == "text")


CHAT_COMPLETIONS = Api(
    title="an OpenAI-compatible endpoint",
    ending="/v1",
    models_path="/models",
    chat_path="/chat/completions",
    models_field="data",
    name_field="id",
    text_of=lambda response: response["choices"][0]["message"].get("content"),
)
RESPONSES = Api(
    title="OpenAI's Responses API",
    ending="/v1",
    models_path="/models",
    chat_path="/responses",
    models_field="data",
    name_field="id",
    text_of=_text_of_items,
    fields={"store": False},
    question_fields=lambda text: {"input": text},
)
MESSAGES = Api(
    title="Anthropic's Messages API",
    ending="/v1",
    models_path="/models?limit=1000",
    chat_path="/messages",
    models_field="data",
    name_field="id",
    text_of=_text_of_blocks,
    key_header="x-api-key",
    headers={"anthropic-version": "2023-06-01"},
    fields={"max_tokens": _ANSWER_TOKENS},
)
CONVERSE = Api(
    title="Amazon Bedrock's Converse API",
    ending=".amazonaws.com",
    models_path="/models",  # There is no list.
    chat_path="/model/{model}/converse",
    models_field="models",
    name_field="id",
    text_of=lambda response: "".join(block.get("text", "") for block in response["output"]["message"]["content"]),
    question_fields=lambda text: {
        "messages": [{"role": "user", "content": [{"text": text}]}],
        "inferenceConfig": {"maxTokens": _ANSWER_TOKENS},
    },
)
OLLAMA = Api(
    title="Ollama's own API",
    ending="/api",
    models_path="/tags",
    chat_path="/chat",
    models_field="models",
    name_field="name",
    text_of=lambda response: response["message"].get("content"),
    schema_fields=lambda schema: {"format": schema},
    arguments_of=lambda response: _only_call(response["message"]),
)
