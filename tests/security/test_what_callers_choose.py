"""What clients may choose about the model, and what they learn about its failures."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from codelab.llm.caller import CallerBounds
from codelab.llm.client.bare import parse_bare, run_bare
from codelab.llm.errors import ContextTooLarge, InvalidRequest, TransportError

from tests.cases import cases
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.functions.system import System
from tests.rest.test_sessions import refused as error_details
from tests.security.test_learning import SCHEMA, Provider

BOUNDS = CallerBounds(frozenset({"m", "other"}), "openai", 8_000)
DEFAULTS = {"model": "m", "provider": "openai"}


def payload(*context: Any, schema: Any = SCHEMA, **config: Any) -> dict[str, Any]:
    return {"context": [*context, {"role": "user", "content": "x"}], "schema": schema, "config": config}


def refused(request: dict[str, Any], pointer: str | None = None) -> InvalidRequest:
    transport = Provider()
    with pytest.raises(InvalidRequest) as caught:
        run_bare(request, transport, defaults=DEFAULTS, bounds=BOUNDS)
    assert not transport.requests, "nothing was spent"
    assert pointer in (None, caught.value.pointer)
    return caught.value


@cases(
    ("config", "name"),
    [
        ({"extra_body": {"service_tier": "priority"}}, "extra_body"),
        ({"extra_body": {"api_base": "http://evil.example"}}, "extra_body"),
        ({"extra_body": {"max_tokens": 10**9}}, "extra_body"),
        ({"model": "the-dearest-of-all"}, "model"),
        ({"provider": "anthropic"}, "provider"),
        ({"n": 1_000}, "n"),
        ({"max_repairs": 1_000}, "max_repairs"),
        ({"max_output_tokens": 10**9}, "max_output_tokens"),
        ({"seed": 10**400}, "seed"),
        ({"seed": -(10**400)}, "seed"),
        ({"temperature": 1e300}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"reasoning_effort": "x" * 100_000}, "reasoning_effort"),
        ({"stream_fields": ["a"] * 10_000}, "stream_fields"),
        ({"stream_fields": ["a" * 100_000]}, "stream_fields"),
        ({"stream_items": "a." * 100_000}, "stream_items"),
    ],
)
def test_expensive_or_redirecting_settings_are_refused_by_name(config: dict[str, Any], name: str) -> None:
    refused(payload(**config), f"/config/{name}")


@pytest.mark.parametrize(
    "changes", [{"extra_body": {"service_tier": "priority"}}, {"model": "the-dearest-of-all"}, {"n": 1_000}]
)
def test_messages_cannot_set_what_the_config_cannot(changes: dict[str, Any]) -> None:
    """Messages of type `meta` change the settings of their Request."""
    problem = refused(payload({"type": "meta", "config": changes}), "/context/0/config")
    assert next(iter(changes)) in str(problem)


@cases(
    "context",
    [
        {"role": "user", "content": "word " * 600_000},
        {"role": "user", "content": " " * 3_000_000},
        {"role": "user", "content": [{"type": "text", "text": "9" * 3_000_000}]},
        {"type": "data", "kind": "k", "data": ["data:image/png;base64," + "word " * 20_000]},
        {"type": "tool", "name": "t", "parameters": {"properties": {f"p{n}": {} for n in range(9_000)}}},
    ],
)
def test_a_context_of_megabytes_is_refused(context: Any) -> None:
    assert isinstance(refused(payload(context), "/context"), ContextTooLarge)


def test_the_schema_counts_towards_the_context() -> None:
    schema = {"type": "object", "properties": {f"property {n}": {"type": "string"} for n in range(4_000)}}
    assert isinstance(refused(payload(schema=schema), "/context"), ContextTooLarge)


def test_too_deeply_nested_messages_are_refused() -> None:
    node: Any = "x"
    for _ in range(900):
        node = [node]
    refused(payload({"type": "data", "data": node}), "/context/0")


def test_offered_models_and_settings_are_accepted() -> None:
    transport = Provider()
    config = {"model": "other", "n": 2, "temperature": 0, "max_output_tokens": 100, "seed": 7, "max_repairs": 0}
    image = {"type": "image", "data": "A" * 200_000, "media_type": "image/png"}
    request = payload({"type": "meta", "config": {"temperature": 1}}, image, **config)
    answered = run_bare(request, transport, defaults=DEFAULTS, bounds=BOUNDS)
    assert answered["solution"] == {"a": 1}
    assert (transport.requests[0]["model"], transport.requests[0]["temperature"]) == ("other", 1)


def test_limits_do_not_apply_to_the_program_itself() -> None:
    request = parse_bare(payload(extra_body={"service_tier": "flex"}, n=9, model="any"))
    assert request.config.extra_body == {"service_tier": "flex"}


# Sessions.


def choose_model(system: System, model: str) -> None:
    system.send_raw("c1", "control", json.dumps({"type": "session_config", "model": model}))


def test_a_session_accepts_only_offered_models(system: System) -> None:
    system.environment = {"LLM_MODELS": "big, bigger"}
    system.connect("c1", extensions=True)
    choose_model(system, "the-dearest-of-all")
    error = system.aws.frames("c1")[-1]
    assert (error["type"], error["error_code"], error["details"]["field"]) == ("error", "INVALID_ARGUMENTS", "model")
    assert "big, bigger" in error["content"]
    status, answer = system.http("PATCH", "/sessions/s1", body={"settings": {"model": "the-dearest-of-all"}})
    error = answer["error"]
    assert (status, error["code"], error["details"]["field"]) == (422, "INVALID_ARGUMENTS", "model")
    choose_model(system, "big")
    system.ask("c1", "Hi")
    assert system.model.requests[-1]["model"] == "big"


def test_a_model_that_is_no_longer_offered_is_not_used(system: System) -> None:
    system.environment = {"LLM_MODELS": "big"}
    system.connect("c1", extensions=True)
    choose_model(system, "big")
    system.environment = {}
    system.ask("c1", "Hi")
    assert system.model.requests[-1]["model"] != "big"


# Errors.

SECRETS = ("sk-proj-abc***xyz", "org-4711", "http://internal.example")


def leaking() -> Iterator[str]:
    raise TransportError(f"Incorrect API key {SECRETS[0]} of {SECRETS[1]} at {SECRETS[2]}", status=401, body=SECRETS[0])
    yield ""


def test_provider_messages_go_to_the_log_not_to_clients(system: System, caplog: pytest.LogCaptureFixture) -> None:
    system.connect("c1", extensions=True)
    system.model.answers.append(leaking())
    system.send("c1", "user_message", content="hello")
    system.run_step()
    frames = system.aws.frames("c1")
    error = next(frame for frame in frames if frame["type"] == "error")
    details = error["details"]
    assert (error["error_code"], details["reason"], details["status"]) == ("LLM_ERROR", "transport", 401)
    assert not any(secret in json.dumps([frames, system.item("REGISTER")]) for secret in SECRETS)
    [logged] = [vars(record) for record in caplog.records if record.message == "the model gave no answer"]
    assert SECRETS[0] in logged["error"]
    assert details["request_id"] == logged["request_id"]


def test_callers_of_bare_requests_get_no_provider_messages(system: System) -> None:
    llm = system.function("llm_request")
    system.model.answers.append(leaking())
    with pytest.raises(TransportError) as caught:
        llm({"kind": "request", **payload()})
    assert not any(secret in str(caught.value) for secret in SECRETS)
    assert caught.value.__suppress_context__, "the runtime's traceback tells nothing either"
    assert "status 401" in str(caught.value)


def test_failures_over_http_have_kind_status_and_request_id(cloud: Any, model: ScriptedModel) -> None:
    marker = model.script("leaks", Says(status=400))
    request = {"context": [{"role": "user", "content": marker}], "schema": SCHEMA}
    answer = httpx.post(f"{cloud.http}/api/v1/requests", json=request, timeout=60)
    details = error_details(answer, 502, "LLM_ERROR")
    assert details.items() >= {"reason": "transport", "status": 400}.items()
    assert details["request_id"]
    assert "scripted refusal" not in answer.text


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        ({"config": {"extra_body": {"max_tokens": 10**9}}}, 422, "INVALID_ARGUMENTS", "config.extra_body"),
        ({"config": {"model": "the-dearest-of-all"}}, 422, "INVALID_ARGUMENTS", "config.model"),
        ({"context": [{"role": "user", "content": "word " * 600_000}]}, 413, "CONTEXT_TOO_LARGE", "context"),
        ({"schema": {"properties": {"p": {"pattern": "(?=a)b"}}}}, 422, "INVALID_ARGUMENTS",
         "schema.properties.p.pattern"),
    ],
)  # fmt: skip
def test_errors_over_http_name_the_field(
    cloud: Any, changes: dict[str, Any], status: int, code: str, field: str
) -> None:
    request = {"context": [{"role": "user", "content": "x"}], "schema": SCHEMA, **changes}
    answer = httpx.post(f"{cloud.http}/api/v1/requests", json=request, timeout=60)
    assert error_details(answer, status, code)["field"] == field


@cases(
    "message",
    [
        {"role": "user", "content": "x", "service_tier": "priority"},
        {"role": "user", "content": "x", "cache_control": {"type": "ephemeral"}},
        {"role": "assistant", "content": "x", "reasoning_content": "y" * 50_000},
        {"role": "assistant", "content": "{", "prefix": True},
        {"role": "user", "content": "x", "name": "n" * 120_000},
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-of-the-operator"}}]},
        {"role": "user", "content": [{"type": "file_url", "file_url": {"url": "https://example.com/x"}}]},
    ],
)
def test_messages_cannot_contain_settings_or_file_ids(message: Any) -> None:
    refused(payload(message))


_PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
_FILE = {"type": "file", "file": {"file_data": "data:text/plain;base64,eA==", "filename": "a"}}


@cases(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "x"}, _PICTURE]},
        {"role": "user", "content": [_FILE]},
        {"type": "image", "url": "https://example.com/a.png", "detail": "low", "text": "what is it?"},
        {"role": "user", "name": "ann", "content": "x"},
    ],
)
def test_allowed_message_fields_are_accepted(message: Any) -> None:
    parsed = parse_bare(payload(message), defaults=DEFAULTS, bounds=BOUNDS)
    assert len(parsed.messages) == 2
