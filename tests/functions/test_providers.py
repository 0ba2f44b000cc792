"""What the settings make `llm_request` ask: the provider's API at its address, and nothing that cannot be asked."""

import json
import sys
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from codelab.config import ConfigurationError
from codelab.llm.client.direct import DirectTransport
from codelab.llm.profiles import PROFILES

from tests.cases import cases
from tests.fakes.http import Exchange, HttpServer
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
        ("bedrock-converse", "https://bedrock-runtime.eu-central-1.amazonaws.com"),
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


def test_without_a_key_the_role_signs_what_it_asks_of_converse(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": "s", "SESSION_TOKEN": "token"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    model = "eu.anthropic.claude-x-v1:0"
    with ScriptedServer(spoken=apis.spoken("bedrock-converse")) as server:
        server.says('{"a": 1}')
        system.environment = {"LLM_PROVIDER": "bedrock", "LLM_BASE_URL": f"{server.url}/openai/v1", "LLM_MODEL": model}
        system.transport = DirectTransport
        assert system.load("llm_request")(dict(REQUEST))["solution"] == {"a": 1}
        [exchange] = server.received
    assert exchange.path == "/v1/model/eu.anthropic.claude-x-v1%3A0/converse-stream"
    headers = exchange.headers
    signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    request = AWSRequest("POST", f"http://{headers['host']}{exchange.path}", data=exchange.content)
    for name in signed:
        request.headers[name] = headers[name]
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(ReadOnlyCredentials("AKIDEXAMPLE", "s", "token"), "bedrock", "eu-central-1")
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert headers["authorization"].endswith(f"Signature={signature}")
    assert {"host", "x-amz-security-token", "content-type"} <= set(signed)


def test_an_application_of_entra_signs_in_before_azure_is_asked(system: System) -> None:
    def sign_in(exchange: Exchange) -> None:
        exchange.json({"access_token": "opaque", "expires_in": 3599})

    with HttpServer(sign_in) as entra, ScriptedServer() as server:
        server.says('{"a": 1}')
        system.environment = {
            "LLM_PROVIDER": "azure",
            "LLM_BASE_URL": server.url,
            "LLM_API_KEY": "secret",
            "LLM_ENTRA_TENANT": "t",
            "LLM_ENTRA_CLIENT_ID": "c",
            "LLM_ENTRA_AUTHORITY": entra.url,
        }
        system.transport = DirectTransport
        assert system.load("llm_request")(dict(REQUEST))["solution"] == {"a": 1}
        [exchange] = server.received
        assert exchange.headers["authorization"] == "Bearer opaque"
        assert "api-key" not in exchange.headers
        assert b"client_secret=secret" in entra.received[0].content


def test_models_of_both_apis_of_bedrock_are_asked_where_they_are(system: System) -> None:
    made: list[str] = []

    def transport(*, base_url: str, **_: Any) -> Any:
        made.append(base_url)
        return system.model

    system.transport = transport
    system.environment = {
        "LLM_PROVIDER": "bedrock",
        "LLM_MODEL": "openai.gpt-oss-120b-1:0",
        "LLM_MODELS": "us.amazon.nova-pro-v1:0",
    }
    system.load("llm_request")
    host = "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert sorted(made) == [host, f"{host}/openai/v1"]


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
        ({"LLM_PROVIDER": "azure", "LLM_ENTRA_CLIENT_ID": "c", "LLM_API_KEY": "s"}, "needs LLM_ENTRA_TENANT"),
        (
            {"LLM_PROVIDER": "bedrock", "LLM_CLIENT": "openai", "LLM_MODELS": "anthropic.claude-x"},
            "LLM_CLIENT=openai: .*LLM_PROVIDER=bedrock-converse; unset LLM_CLIENT",
        ),
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


@cases(
    ("provider", "modules"),
    [
        ("openai", []),
        ("bedrock", []),
        ("openai-responses", ["responses_api"]),
        ("anthropic-messages", ["messages_api"]),
        ("ollama-chat", ["ollama_api"]),
        ("bedrock-converse", ["messages_api", "converse_api"]),
    ],
)
def test_only_the_api_that_is_used_is_imported(provider: str, modules: list[str]) -> None:
    """Each would make every cold start of `llm_request` longer."""
    done = run(sys.executable, "-c", _LOADED, provider)
    assert done.stdout.split() == modules
