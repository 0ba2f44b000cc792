"""One caller's words do not change how the model is asked for others."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from codelab.aws import dynamodb_client
from codelab.llm.client.bare import run_bare
from codelab.llm.client.request import Request
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import TransportError
from codelab.sessions.dynamodb.unsupported import ITEM, read_unsupported
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb

from tests.fakes.model.in_process import Answer, Body, InProcess
from tests.fakes.model.wire import argument, delta
from tests.functions.system import System
from tests.security.test_denials import hello

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


class Provider(InProcess):
    """Refuses requests in which the pattern `refuses` matches, with the message `says`; otherwise answers."""

    def __init__(self, refuses: str = "never refused", says: str = "{}") -> None:
        super().__init__(self._say)
        self._refuses, self._says = refuses, says

    def _say(self, body: Body, _call: Call) -> Answer:
        if found := re.search(self._refuses, str(body)):
            raise TransportError(self._says.format(found.group()), status=400)
        if "tools" in body:
            return argument('{"a": 1}', name="generate_response", finish="stop")
        return [delta('{"a": 1}', index=index, finish="stop") for index in range(body.get("n", 1))]


def asked(model: Provider, unsupported: UnsupportedFeatures, words: str = "Hi", **config: Any) -> Any:
    context = [{"role": "user", "content": words}]
    return Request(RequestConfig("m", **config), SCHEMA, context, unsupported=unsupported).run(model).solution


def bare(model: Provider, unsupported: UnsupportedFeatures, schema: Any) -> Any:
    payload = {"context": [{"role": "user", "content": "x"}], "schema": schema}
    return run_bare(payload, model, defaults={"model": "m"}, unsupported=unsupported)["solution"]


def is_strict(body: Mapping[str, Any]) -> bool:
    return bool(body.get("response_format", {}).get("json_schema", {}).get("strict"))


def test_a_callers_argument_names_do_not_disable_schema_enforcement() -> None:
    """A 400 that quotes names from another caller's schema, in a bare Request."""
    unsupported = UnsupportedFeatures()
    named = {"type": "object", "properties": {"strict": {"type": "string"}, "stream_options": {"type": "string"}}}
    quoting = Provider("stream_options", "Invalid schema: 'strict', 'stream_options' in your own names")
    with pytest.raises(TransportError):
        bare(quoting, unsupported, named)
    plain = Provider()
    assert asked(plain, unsupported) == {"a": 1}
    assert is_strict(plain.requests[0])
    assert not unsupported.of(plain.base_url, "m")


def test_a_bare_request_teaches_nothing_even_when_it_is_refused_truly() -> None:
    unsupported = UnsupportedFeatures()
    provider = Provider("json_schema", "response_format json_schema is not supported")
    assert bare(provider, unsupported, SCHEMA) == {"a": 1}
    assert not unsupported.of(provider.base_url, "m")


def test_a_users_words_that_a_refusal_quotes_are_not_learnt() -> None:
    unsupported = UnsupportedFeatures()
    quoting = Provider("tell me", "Invalid message: '{0} of response_format and strict'")
    with pytest.raises(TransportError):
        asked(quoting, unsupported, "tell me of response_format and strict")
    assert not unsupported.of(quoting.base_url, "m")


def test_what_the_server_set_itself_is_learnt_and_forgotten_after_an_hour() -> None:
    now = [1_000.0]
    unsupported = UnsupportedFeatures(clock=lambda: now[0])
    provider = Provider("'strict': True", "Invalid value: 'strict'")
    assert asked(provider, unsupported) == {"a": 1}
    assert unsupported.of(provider.base_url, "m") == {"native:strict"}
    before = len(provider.requests)
    assert asked(provider, unsupported) == {"a": 1}
    assert len(provider.requests) == before + 1, "not asked for again"
    now[0] += 3_601
    assert not unsupported.of(provider.base_url, "m")


def test_a_server_that_refuses_tool_choice_is_asked_in_json_mode() -> None:
    provider = Provider("tool_choice", "'tool_choice' is not supported by this server")
    assert asked(provider, UnsupportedFeatures(), provider="deepseek") == {"a": 1}
    assert provider.requests[-1]["response_format"] == {"type": "json_object"}


def test_a_server_that_refuses_everything_ends_in_an_error_with_its_status() -> None:
    provider = Provider("model", "'tool_choice', response_format and tools are not supported")
    with pytest.raises(TransportError) as caught:
        asked(provider, UnsupportedFeatures())
    assert caught.value.status == 400
    assert len(provider.requests) < 10


def refusing(message: str) -> Iterator[str]:
    raise TransportError(message, status=400)
    yield ""


def test_a_declared_tool_does_not_disable_schema_enforcement_for_others(system: System) -> None:
    system.connect("c1")
    parameters = {"type": "object", "properties": {"strict": {"type": "string"}}}
    hello(system, "c1", {"name": "own", "description": "d", "parameters": parameters})
    system.model.answers.append(refusing("Invalid schema for response_format: 'strict' in ('own', 'strict')"))
    system.ask("c1", "Hi")
    assert not is_strict(system.model.requests[-1]), "this run does without"
    hello(system, "c1")
    system.ask("c1", "Hi again")
    assert is_strict(system.model.requests[-1])


def test_what_was_learnt_is_shown_by_health(system: System) -> None:
    health = {"TableName": "Table", "Key": to_dynamodb(ITEM)}
    system.connect("c1")
    system.ask("c1", "Hi")
    assert "Item" not in system.table.get_item(**health), "nothing is written while nothing is refused"
    system.model.answers.append(refusing("Invalid value: 'strict'"))
    system.ask("c1", "Hi")
    forgotten_at = from_dynamodb(system.table.get_item(**health)["Item"])["ttl"]
    [features] = read_unsupported(dynamodb_client(), "Table", forgotten_at - 1).values()
    assert features == ["native:strict"]
    assert read_unsupported(dynamodb_client(), "Table", forgotten_at) == {}, "an hour later it is not"


def test_the_next_process_knows_all_of_it_after_one_refusal(system: System) -> None:
    system.connect("c1")
    both = [refusing("Invalid value: 'strict'"), refusing("response_format is not supported")]
    system.model.answers.extend(both)
    system.ask("c1", "Hi")
    assert len(system.model.requests) == 3
    system._functions.pop("llm_request")  # the process ends
    system.model.answers.append(refusing("Invalid value: 'strict'"))
    system.ask("c1", "Hi again")
    assert len(system.model.requests) == 5
    assert "json_schema" not in str(system.model.requests[-1].get("response_format"))
