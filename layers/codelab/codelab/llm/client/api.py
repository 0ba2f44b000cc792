"""A provider's HTTP API, as a transport needs it: where a call goes, and what request and answer look like.

Everywhere else, both have the form of the chat completions API. An Api translates them and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from codelab.llm.client.answers import events, read_object
from codelab.llm.encoding import encode
from codelab.llm.errors import InvalidRequest
from codelab.llm.profiles import ApiName

#: The tokens that a model with this name is to have room for: those of the prompt and of the answer.
Window = Callable[[str], int]


class Api(Protocol):
    """One provider's API.

    base_url: the provider's own address. path, models_path: where, below the base URL, a call goes (`{model}` stands
    for the model's name), and the list of models is; empty if there is none. headers: sent with each call, beside the
    key's.
    """

    base_url: str
    path: str
    models_path: str
    headers: Mapping[str, str]

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """The provider's request for the body of a chat completion. Raises InvalidRequest for what it cannot ask."""

    def chunks(self, pieces: Iterator[bytes], *, streams: bool) -> Iterator[list[dict[str, Any]]]:
        """An answer as chunks of a chat completion, or one list of a whole one, see `Transport.send`.

        Ends without a finish reason if the answer is cut. Raises ModelError.
        """


class ChatCompletionsApi:
    """What OpenAI, and most others, speak."""

    base_url = "https://api.openai.com/v1"
    path = "/chat/completions"
    models_path = "/models"
    headers: Mapping[str, str] = {}

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """See `Api.encode`."""
        return encode(body)

    def chunks(self, pieces: Iterator[bytes], *, streams: bool) -> Iterator[list[dict[str, Any]]]:
        """See `Api.chunks`."""
        return events(pieces) if streams else iter([[read_object(pieces)]])


def api_named(name: ApiName, window: Window) -> Api:
    """The API of a profile (`Profile.api`). Only the one that is used is imported.

    window: for Ollama, which reserves it when it loads the model.
    """
    match name:
        case "chat_completions":
            return ChatCompletionsApi()
        case "messages":
            from codelab.llm.client.messages_api import MessagesApi

            return MessagesApi()
        case "responses":
            from codelab.llm.client.responses_api import ResponsesApi

            return ResponsesApi()
        case "ollama":
            from codelab.llm.client.ollama_api import OllamaApi

            return OllamaApi(window)
        case "converse":
            from codelab.llm.client.converse_api import ConverseApi

            return ConverseApi()
    raise InvalidRequest(f"unknown API {name!r}", "/config/provider")
