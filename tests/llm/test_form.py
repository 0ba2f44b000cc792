"""What a model is told of an answer whose schema its provider does not show it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from codelab.agents import agents
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.form import form_of
from codelab.llm.outcome import Usage
from codelab.llm.profiles import PROFILES
from codelab.llm.schema.validation import compile_validator
from codelab.protocol.tools import CATALOGUE, ExecutorTools
from codelab.turns import routing
from codelab.turns.model_answers import ANSWER, answer_schema
from codelab.turns.titles import with_title

from tests.cases import cases
from tests.fakes.http import Exchange
from tests.fakes.model.wire import ScriptedServer, delta
from tests.llm.schemas import INTEGER, STRING, array, closed, obj, optional

READ = closed(optional(_tool={"const": "read"}, path={**STRING, "description": "Where it is"}, limit=INTEGER)) | {
    "required": ["_tool", "path"], "description": "Read a file"
}  # fmt: skip
RUN = closed(obj(_tool={"const": "run"}, command=STRING))
SCHEMA = closed(obj(message=STRING, calls=array({"anyOf": [READ, RUN]})))
SYSTEM = {"role": "system", "content": "You are a tester."}
CONTEXT = [SYSTEM, {"role": "user", "content": "Hi"}]
WHOLE = json.dumps({"message": "x", "calls": []})


def sent(server: ScriptedServer, transport: Any, context: Any = CONTEXT, **config: Any) -> list[dict[str, Any]]:
    """The messages of the call."""
    server.says(WHOLE)
    request = Request(RequestConfig("m", **config), SCHEMA, context, unsupported=UnsupportedFeatures())
    request.run(transport)
    messages: list[dict[str, Any]] = server.requests[-1]["messages"]
    return messages


@pytest.mark.parametrize("provider", ["llama.cpp", "ollama", "vllm", "generic"])
def test_a_model_behind_a_grammar_is_told_its_tools(server: ScriptedServer, transport: Any, provider: str) -> None:
    system = sent(server, transport, provider=provider)[0]["content"]
    for words in ("You are a tester.", "## read", "Read a file", '"path": string', "- path: Where it is", "## run"):
        assert system.count(words) == 1, words
    assert system.index("## run") < system.index("You are a tester.") < system.index('{"message": string, "calls": ')


@pytest.mark.parametrize("provider", ["openai", "azure", "gemini", "mistral"])
def test_a_model_that_sees_the_schema_is_told_nothing_twice(
    server: ScriptedServer, transport: Any, provider: str
) -> None:
    assert sent(server, transport, provider=provider) == CONTEXT


def test_the_profile_can_be_overridden(server: ScriptedServer, transport: Any) -> None:
    assert sent(server, transport, provider="llama.cpp", shows_schema=True) == CONTEXT
    assert "## read" in sent(server, transport, provider="openai", shows_schema=False)[0]["content"]


@pytest.mark.parametrize(
    ("model", "is_told"),
    [("openai/gpt-5", False), ("anthropic/claude-sonnet-4", False), ("qwen/qwen3-coder", True),
     ("openai/gpt-oss-120b", True), ("google/gemma-3-27b", True)],
)  # fmt: skip
def test_a_router_shows_the_schema_to_some_models(
    server: ScriptedServer, transport: Any, model: str, is_told: bool
) -> None:
    server.says(WHOLE)
    Request(RequestConfig(model, provider="openrouter"), SCHEMA, CONTEXT).run(transport)
    assert ("## read" in server.requests[-1]["messages"][0]["content"]) is is_told


def test_json_mode_has_the_schema_and_no_form(server: ScriptedServer, transport: Any) -> None:
    system = sent(server, transport, provider="llama.cpp", strategy="json")[0]["content"]
    assert "JSON Schema" in system
    assert "## read" not in system


def test_a_context_without_a_system_message_gets_one(server: ScriptedServer, transport: Any) -> None:
    messages = sent(server, transport, CONTEXT[1:], provider="llama.cpp")
    assert [message["role"] for message in messages] == ["system", "user"]
    parts = [{"role": "system", "content": [{"type": "text", "text": "You are a tester."}]}, CONTEXT[1]]
    texts = [part["text"] for part in sent(server, transport, parts, provider="llama.cpp")[0]["content"]]
    assert [("## read" in text, "tester" in text) for text in texts] == [(True, False), (False, True), (False, False)]


def test_a_schema_without_words_for_it_is_shown_as_it_is() -> None:
    form = form_of({"type": "object", "properties": {"a": {"not": {"const": 1}}}, "required": ["a"]})
    assert '{"a": a value for the JSON Schema {"not": {"const": 1}}}' in form.answer


def test_recursive_schemas_end() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
    form = form_of({"type": "object", "properties": {"first": {"$ref": "#/$defs/node"}}, "required": ["first"],
                    "$defs": {"node": node}})  # fmt: skip
    assert '{"first": node}' in form.answer
    assert "node is {" in form.answer


@pytest.mark.parametrize("titled", [True, False])
def test_every_tool_of_an_agent_is_told_once_and_the_examples_are_valid(titled: bool) -> None:
    agent = agents()["universal"].for_executor(ExecutorTools(supported=frozenset(CATALOGUE)))
    schema = answer_schema(agent, has_title=titled)
    form = form_of(schema)
    for tool in agent.tools.values():
        assert f"## {tool.name}\n" in form.catalogue
    examples = [json.loads(line[line.index("{") :]) for line in form.answer.splitlines()[-2:]]
    assert all(map(compile_validator(schema).is_valid, examples))
    assert [(bool(it["message"]), len(it["calls"])) for it in examples] == [(False, 1), (True, 0)]


def test_the_catalogue_is_the_same_in_a_routed_and_titled_step_and_in_the_next() -> None:
    """It is the beginning of the prompt, so the provider's cache has it from the first step on."""
    answering = {
        name: agent.for_executor(ExecutorTools(supported=frozenset(CATALOGUE)))
        for name, agent in agents().items()
        if not agent.routes
    }
    router = routing.combined_agent(agents()["orchestrator"], answering, answering)
    first = with_title(routing.schema(ANSWER, sorted(answering)))
    from codelab.llm.call_schema import with_tool

    for tool in router.tools.values():
        first = with_tool(first, tool.name, tool.parameters, tool.description)
    second = answer_schema(answering["universal"], has_title=False)
    assert form_of(first).catalogue == form_of(second).catalogue != ""
    assert form_of(first).answer != form_of(second).answer


def test_each_profile_says_whether_the_schema_is_seen() -> None:
    shown = {name for name, profile in PROFILES.items() if not profile.hides_schema}
    assert shown == {
        "openai",
        "azure",
        "openai-responses",
        "anthropic",
        "anthropic-messages",
        "bedrock-converse",
        "gemini",
        "deepseek",
        "moonshot",
        "mistral",
    }


@cases(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"prompt_cache_hit_tokens": 4}, 4),
        ({"num_cached_tokens": 5}, 5),
        ({"cached_tokens": 6}, 6),
        ({}, None),
    ],
)
def test_cached_tokens_have_several_names(usage: dict[str, Any], cached: int | None) -> None:
    assert Usage.parse({"prompt_tokens": 9, **usage}).cached == cached


@pytest.mark.parametrize("place", ["choice", "x_groq"])
def test_usage_is_found_where_providers_put_it(server: ScriptedServer, place: str) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 6}
    last = delta(finish="stop")
    if place == "choice":
        last["choices"][0]["usage"] = usage
    else:
        last["x_groq"] = {"id": "r", "usage": usage}

    def script(exchange: Exchange) -> None:
        exchange.events([delta(WHOLE), last])

    server.answer(script)
    request = Request(RequestConfig("m"), SCHEMA, CONTEXT, unsupported=UnsupportedFeatures())
    *_, done = request.stream(DirectTransport(base_url=server.url, api_key="x"))
    assert done.result.usage == Usage(prompt=9, completion=2, cached=6)  # type: ignore[union-attr]
