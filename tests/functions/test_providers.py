"""What the settings make `llm_request` ask: the provider's API at its address, and nothing that cannot be asked."""

import json
import sys
from typing import Any

import pytest
from codelab.config import ConfigurationError
from codelab.llm.client.direct import DirectTransport
from codelab.llm.profiles import PROFILES

from tests.fakes.model import apis
from tests.fakes.model.apis import SPOKEN, WINDOW
from tests.fakes.model.wire import USAGE, ScriptedServer
from tests.functions.system import System
from tests.processes import run

REQUEST = {
    "kind": "request",
    "context": [{"role": "user", "content": "?"}],
    "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


@pytest.mark.parametrize("provider", ["openai", *SPOKEN])
def test_each_api_answers_a_request(system: System, provider: str) -> None:
    with ScriptedServer(spoken=apis.spoken(provider)) as server:
        server.says('{"a": 1}', usage=USAGE)
        system.environment = {
            "LLM_PROVIDER": provider,
            "LLM_BASE_URL": server.url,
            "LLM_API_KEY": "key",
            "LLM_MODEL": "qwen3:8b",
            "MAX_CONTEXT_TOKENS": str(WINDOW),
        }
        system.transport = DirectTransport
        answer: dict[str, Any] = system.load("llm_request")(dict(REQUEST))
        assert answer["solution"] == {"a": 1}
        assert (answer["usage"]["prompt"], answer["usage"]["completion"]) == (100, 10)


@pytest.mark.parametrize(
    ("provider", "url"),
    [
        ("openai", "https://api.openai.com/v1"),
        ("openai-responses", "https://api.openai.com/v1"),
        ("anthropic-messages", "https://api.anthropic.com/v1"),
        ("ollama-chat", "http://localhost:11434/api"),
    ],
)
def test_a_provider_without_an_address_is_asked_at_its_own(system: System, provider: str, url: str) -> None:
    made: list[dict[str, Any]] = []

    def transport(**endpoint: Any) -> Any:
        made.append(endpoint)
        return system.model

    system.transport = transport
    system.environment = {"LLM_PROVIDER": provider, "LLM_API_KEY": "key"}
    system.load("llm_request")
    [endpoint] = made
    assert endpoint["base_url"] == url
    assert endpoint["key_header"] == PROFILES[provider].key_header


def test_ollama_reserves_the_window_of_the_model(system: System) -> None:
    made: list[Any] = []

    def transport(*, api: Any, **_: Any) -> Any:
        made.append(api)
        return system.model

    system.transport = transport
    capabilities = '{"small": {"window": 8192}, "qwen3:8b": {"window": 40960}}'
    system.environment = {"LLM_PROVIDER": "ollama-chat", "LLM_CAPABILITIES": capabilities}
    system.load("llm_request")
    [api] = made
    for model, tokens in (("small", 8_192), ("qwen3:8b", 40_960), ("unknown", 32_768)):
        assert json.loads(api.encode({"model": model, "messages": []}))["options"] == {"num_ctx": tokens}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"LLM_PROVIDER": "antropic"},
            "LLM_PROVIDER=antropic: unknown provider; known are openai, .*anthropic-messages",
        ),
        ({"LLM_PROVIDER": "ollama-chat", "LLM_CLIENT": "openai"}, "LLM_CLIENT=openai: .*unset LLM_CLIENT"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_named_with_the_cure(
    system: System, settings: dict[str, str], message: str
) -> None:
    system.environment = settings
    with pytest.raises(ConfigurationError, match=message):
        system.load("llm_request")


_LOADED = """
import sys
from codelab.llm.client.api import api_named
from codelab.llm.profiles import PROFILES
api_named(PROFILES[sys.argv[1]].api, len)
print(*(name.rpartition(".")[2] for name in sys.modules if name.endswith("_api")))
"""


@pytest.mark.parametrize(
    ("provider", "modules"),
    [
        ("openai", []),
        ("bedrock", []),
        ("openai-responses", ["responses_api"]),
        ("anthropic-messages", ["messages_api"]),
        ("ollama-chat", ["ollama_api"]),
    ],
)
def test_only_the_api_that_is_used_is_imported(provider: str, modules: list[str]) -> None:
    """Each would make every cold start of `llm_request` longer."""
    done = run(sys.executable, "-c", _LOADED, provider)
    assert done.stdout.split() == modules
