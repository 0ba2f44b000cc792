"""The strategy `calls`: which schemas it fits, its functions, and answers of native calls, whole, cut and wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from codelab.llm.call_schema import parameters_of, with_tool
from codelab.llm.client.request import Request, shown_form
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import (
    ContentFilter,
    Empty,
    InvalidAnswer,
    Length,
    ModelError,
    TransportError,
    Truncated,
)
from codelab.llm.functions import function_names, functions_of
from codelab.llm.modes import Mode
from codelab.llm.native_calls import CallAssembler, NativeCall
from codelab.llm.outcome import ItemDone
from codelab.llm.schema.validation import compile_validator
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.fakes.http import Exchange, Script
from tests.fakes.model.wire import ScriptedServer, delta, failing, native_calls, saying, whole
from tests.llm.answer import Answer, answer_of
from tests.llm.schemas import INTEGER, STRING, array, closed, obj, optional

READ = closed(optional(_tool={"const": "read"}, path=STRING, limit=INTEGER)) | {"required": ["_tool", "path"]}
DIFF = closed(obj(_tool={"const": "git.diff"}, set={"additionalProperties": STRING}))
TURN = closed(obj(message=STRING, calls=array({"anyOf": [READ, DIFF]})))
ASK = [{"role": "user", "content": "What now?"}]
READ_A, READ_B = ({"_tool": "read", "path": path} for path in ("a", "b"))


def request(
    schema: Any = TURN, context: Any = ASK, unsupported: UnsupportedFeatures | None = None, **config: Any
) -> Any:
    settings = RequestConfig(**{"model": "m", "strategy": "calls", **config})
    retry = RetryPolicy(base_s=0.001)
    return Request(settings, schema, context, unsupported=unsupported or UnsupportedFeatures(), retry=retry)


# The names of functions.

_TOOL_NAMES = st.one_of(
    st.text(min_size=0, max_size=70),
    st.text("ab._-/é", min_size=0, max_size=4),
    st.sampled_from(["git.diff", "git_diff", "git-diff", "git diff", "git_diff_2", "x" * 64, "x" * 65, "x" * 63 + "."]),
)


@given(st.lists(_TOOL_NAMES, max_size=30))
def test_every_tool_has_a_function_name_of_its_own_that_providers_accept(tools: list[str]) -> None:
    names = function_names(tools)
    assert names.keys() == {*tools}
    assert len({*names.values()}) == len(names)
    for tool, name in names.items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name, re.ASCII)
        assert name == tool or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool, re.ASCII), "a good name is kept"
    assert function_names(tools) == names


def test_a_clients_tool_never_takes_the_name_of_another_tool() -> None:
    assert function_names(["git.diff", "git_diff", "git/diff"]) == {
        "git.diff": "git_diff_2",
        "git_diff": "git_diff",
        "git/diff": "git_diff_3",
    }


# Which schemas it fits, and the parameters.


def test_the_schema_of_a_step_fits_and_further_fields_do_not() -> None:
    functions = functions_of(TURN, "close")
    assert functions is not None
    assert (functions.text_field, functions.names) == ("message", {"read": "read", "git.diff": "git_diff"})


@pytest.mark.parametrize(
    "schema",
    [
        obj(summary=STRING),
        obj(message=STRING),
        obj(message=STRING, calls=array(STRING)),
        obj(message=STRING, calls=array({"anyOf": [READ, STRING]})),
        obj(message=STRING, calls=array({"anyOf": [READ, READ]})),
        obj(message=STRING, calls=array({"anyOf": [optional(_tool={"const": "read"})]})),
        obj(message=STRING, calls=array({"anyOf": [obj(_tool=STRING)]})),
        obj(message=STRING, calls=array({"anyOf": [READ], "maxProperties": 3})),
        obj(message=INTEGER, calls=array({"anyOf": [READ]})),
        obj(message=STRING, title=STRING, calls=array({"anyOf": [READ]})),
        obj(agent=STRING, message=STRING, calls=array({"anyOf": [READ]})),
        {**TURN, "not": {}},
        obj(message=STRING, calls=array({"anyOf": [obj(_tool={"const": "a"}, again={"$ref": "#"})]})),
        obj(message=STRING, calls=array({"anyOf": [obj(_tool={"const": str(n)}) for n in range(129)]})),
        True,
    ],
    ids=range(15),
)
def test_a_schema_of_another_shape_is_asked_for_in_another_way(
    server: ScriptedServer, transport: Any, schema: Any
) -> None:
    assert functions_of(schema, "close") is None
    server.answer(failing(400, "stop here"))
    with pytest.raises(TransportError):
        request(schema).run(transport)
    assert "response_format" in server.requests[0]
    assert "tools" not in server.requests[0]


_PARAMETERS = [
    closed(obj(path=STRING)),
    optional(path=STRING, limit=INTEGER),
    {},
    {"type": "object", "properties": {"a": INTEGER}, "minProperties": 1, "maxProperties": 2},
    {
        "type": "object",
        "properties": {"a": INTEGER},
        "anyOf": [closed(obj(a=INTEGER)), closed(obj(a=INTEGER, path=STRING))],
    },
    {
        "type": "object",
        "properties": {"path": {"$ref": "#/$defs/p"}},
        "required": ["path"],
        "$defs": {"p": {"anyOf": [STRING, array({"$ref": "#/$defs/p"})]}},
    },
    {"type": "object", "patternProperties": {"^a": INTEGER}, "additionalProperties": STRING},
]
_ARGUMENTS = st.dictionaries(
    st.sampled_from(["a", "path", "limit"]), st.one_of(st.integers(0, 3), st.just("x"), st.just(["y"])), max_size=4
)


@pytest.mark.parametrize("parameters", _PARAMETERS, ids=range(len(_PARAMETERS)))
@given(arguments=_ARGUMENTS)
def test_arguments_fit_a_function_where_they_fit_its_branch(parameters: Any, arguments: dict[str, Any]) -> None:
    schema = with_tool(obj(message=STRING), "a.tool", parameters)
    [branch] = schema["properties"]["calls"]["items"]["anyOf"]
    function = {**parameters_of(branch), "$defs": schema.get("$defs", {})}
    answer = {"message": "", "calls": [{"_tool": "a.tool", **arguments}]}
    assert compile_validator(function).is_valid(arguments) == compile_validator(schema).is_valid(answer)


def test_definitions_that_all_functions_repeat_do_not_multiply_what_the_model_reads() -> None:
    large = {"$defs": {"d": {"enum": [f"value {n}" for n in range(500)]}}}
    branches = [obj(_tool={"const": f"t{n}"}, a={"$ref": "#/$defs/d"}) for n in range(100)]
    few, many = (obj(message=STRING, calls=array({"anyOf": branches[:n]})) | large for n in (2, 100))
    assert functions_of(few, "close") is not None
    assert functions_of(many, "close") is None


@cases("parameters", _PARAMETERS, ids=range(len(_PARAMETERS)))
def test_every_function_is_a_valid_schema_of_an_object(parameters: Any) -> None:
    functions = functions_of(with_tool(obj(message=STRING), "a.tool", parameters), "close")
    assert functions is not None
    for mode in (Mode("calls"), Mode("calls", strict=True)):
        [definition] = functions.definitions(mode, frozenset())
        sent = definition["function"]["parameters"]
        compile_validator(sent)
        assert sent["type"] == "object"
        assert definition["function"].get("strict", False) == mode.strict


def test_a_branch_without_its_constant_is_what_the_tool_declared() -> None:
    declared = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"], "minProperties": 1}
    schema = with_tool(obj(message=STRING), "t", declared, "To t")
    branch = schema["properties"]["calls"]["items"]["anyOf"][0]
    assert parameters_of(branch) == {**declared, "additionalProperties": False}


def test_what_is_sent(server: ScriptedServer, transport: Any) -> None:
    server.says('{"message": "Hello", "calls": []}')
    request(context=[{"role": "system", "content": "Be brief."}, *ASK]).run(transport)
    body = server.requests[0]
    assert (body["tool_choice"], body["parallel_tool_calls"], "response_format" in body) == ("auto", True, False)
    read, diff = (tool["function"] for tool in body["tools"])
    assert (read["name"], diff["name"]) == ("read", "git_diff")
    assert read["strict"] is diff["strict"] is True
    assert read["parameters"] == closed(obj(path=STRING, limit={"type": ["integer", "null"]}))
    assert "_tool" not in json.dumps(body["tools"])
    assert body["messages"][0]["content"].startswith("Be brief.")
    request(provider="ollama").run(transport)
    plain, _ = (tool["function"] for tool in server.requests[1]["tools"])
    assert "strict" not in plain
    assert plain["parameters"] == closed(optional(path=STRING, limit=INTEGER)) | {"required": ["path"]}


def test_the_catalogue_is_not_told_twice() -> None:
    config = RequestConfig("m", provider="llama.cpp", strategy="calls")
    assert shown_form(config, TURN, frozenset()) is None
    assert shown_form(config.changed(strategy="native"), TURN, frozenset()) is not None


# Calls in pieces.


def piece(index: Any = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    head = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return {**head, "function": function}


A, B = '{"path": "a"}', '{"path": "b"}'
READ_BOTH = [NativeCall("read", A), NativeCall("read", B)]

#: How providers tell two calls apart.
PIECES: dict[str, list[dict[str, Any]]] = {
    "an index each": [
        piece(0, "x", "read", ""),
        piece(0, arguments=A),
        piece(1, "y", "read", ""),
        piece(1, arguments=B),
    ],
    "in turns": [piece(0, "x", "read"), piece(1, "y", "read"), piece(0, arguments=A), piece(1, arguments=B)],
    "gaps": [piece(3, "x", "read", A), piece(7, "y", "read", B)],
    "one id for both": [piece(0, "x", "read", A), piece(1, "x", "read", B)],
    "one id, one index": [piece(0, "x", "read", A), piece(0, "x", "read", B)],
    "one index": [piece(0, "x", "read", ""), piece(0, arguments=A), piece(0, "y", "read", ""), piece(0, arguments=B)],
    "no index": [piece(None, "x", "read", A), piece(None, "y", "read", B)],
    "neither index nor id": [piece(None, None, "read", A), piece(None, None, "read", B)],
    "the head in every piece": [
        *(piece(0, "x", "read", A[at : at + 2]) for at in range(0, len(A), 2)),
        *(piece(1, "y", "read", B[at : at + 2]) for at in range(0, len(B), 2)),
    ],
    "the head again at the end": [piece(0, "x", "read", A), piece(0, "x", "read"), piece(1, "y", "read", B)],
    "a name in pieces": [piece(0, "x", "re"), piece(0, name="ad"), piece(0, arguments=A), piece(1, "y", "read", B)],
    "arguments that are objects": [piece(0, "x", "read", json.loads(A)), piece(0, "y", "read", json.loads(B))],
    "thoughts among the arguments": [piece(0, "x", "read", f"<think>{B}</think>{A}"), piece(1, "y", "read", B)],
}


@cases("name", PIECES)
def test_calls_are_assembled_however_a_provider_cuts_them(name: str) -> None:
    assembler = CallAssembler([], [])
    for part in PIECES[name]:
        assembler.take(part, is_whole=False)
    assembler.finish()
    assert assembler.calls == READ_BOTH


def test_calls_of_a_whole_answer_need_neither_index_nor_arguments() -> None:
    assembler = CallAssembler([], [])
    for name in ("env", "env", "read"):
        assembler.take(piece(None, None, name, ""), is_whole=True)
    assert [call.name for call in assembler.calls] == ["env", "env", "read"]


def test_a_piece_without_a_name_at_a_new_index_is_no_part_of_another_call() -> None:
    assembler = CallAssembler([], [])
    for part in (piece(0, "x", "read"), piece(1, arguments=A)):
        assembler.take(part, is_whole=False)
    assert assembler.calls == [NativeCall("read", ""), NativeCall("", A)]


# Answers. What a model says is the text, and its calls as (function, arguments).


def answering(
    text: str | None, *calls: tuple[str, str], finish: str | None = "tool_calls", call_id: str = ""
) -> Script:
    def script(exchange: Exchange) -> None:
        tool_calls = [
            {"index": index, "id": call_id or f"c{index}", "function": {"name": name, "arguments": arguments}}
            for index, (name, arguments) in enumerate(calls)
        ]
        if exchange.body.get("stream"):
            chunks = [delta(text, role="assistant"), *(delta(tool_calls=[call]) for call in tool_calls)]
            exchange.events([*chunks, delta(finish=finish)])
        else:
            exchange.json(whole(text, finish=finish, **({"tool_calls": tool_calls} if tool_calls else {})))

    return script


both = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


@both
@pytest.mark.parametrize("text", ["I read.", "", None])
def test_text_and_calls_are_the_answer(server: ScriptedServer, transport: Any, text: Any, streamed: bool) -> None:
    server.answer(answering(text, ("read", '{"path": "a", "limit": null}'), ("git_diff", '{"set": []}')))
    answer = answer_of(request(), transport, streamed=streamed)
    assert answer.result.solution == {"message": text or "", "calls": [READ_A, {"_tool": "git.diff", "set": {}}]}
    assert (answer.result.strategy, answer.result.finish_reason) == ("calls", "tool_calls")
    if streamed:
        assert (answer.text, answer.items) == (text or "", answer.result.solution["calls"])


@both
def test_two_calls_with_one_id_are_two(server: ScriptedServer, transport: Any, streamed: bool) -> None:
    server.answer(answering("", ("read", A), ("read", B), call_id="same"))
    assert answer_of(request(), transport, streamed=streamed).result.solution["calls"] == [READ_A, READ_B]


@both
def test_what_a_text_says_about_calls_calls_nothing(server: ScriptedServer, transport: Any, streamed: bool) -> None:
    said = '{"message": "x", "calls": [{"_tool": "read", "path": "a"}]}'
    server.answer(answering(said, finish="stop"))
    assert answer_of(request(), transport, streamed=streamed).result.solution == {"message": said, "calls": []}


@both
@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "STOP", "end_turn", "eos"])
def test_the_ends_that_providers_document(server: ScriptedServer, transport: Any, finish: str, streamed: bool) -> None:
    server.answer(answering("", ("read", A), finish=finish))
    assert answer_of(request(), transport, streamed=streamed).result.solution["calls"] == [READ_A]


@both
@pytest.mark.parametrize(
    ("finish", "error"),
    [
        (None, Truncated),
        ("", Truncated),
        ("length", Length),
        ("content_filter", ContentFilter),
        ("insufficient_system_resource", TransportError),
        ("something_new", Truncated),
    ],
)
@pytest.mark.parametrize("arguments", [A, '{"path": "a', ""])
def test_a_cut_answer_executes_nothing_even_if_its_calls_are_valid(
    server: ScriptedServer, transport: Any, finish: Any, error: Any, arguments: str, streamed: bool
) -> None:
    server.answer(answering("Now.", ("read", A), ("read", arguments), finish=finish))
    answer = Answer()
    with pytest.raises(error):
        answer.read(request(), transport, streamed=streamed)
    assert answer.items == []
    assert len(server.requests) == 1


@both
def test_a_text_without_an_end_is_no_answer(server: ScriptedServer, transport: Any, streamed: bool) -> None:
    server.answer(answering("Half a sen", finish=None))
    with pytest.raises(Truncated):
        answer_of(request(), transport, streamed=streamed)


#: One that has calls is cut; then what follows its object would have counted, or it lacks an end.
CUT_TEXTS = {
    "native": '{"message": "x", "calls": [{"_tool": "read", "path": "a", "limit": null}',
    "json": '```json\n{"message": "x", "calls": [{"_tool": "read", "path": "a"}]}\n```\nNo:\n```\n{"message": "y", ',
    "tool": 'Sure: {"message": "x", "calls": [{"_tool": "read", "path": "a", "limit": null}]}\nOr ',
}


@both
@pytest.mark.parametrize("finish", [None, "length", "error"])
@pytest.mark.parametrize("strategy", CUT_TEXTS)
def test_a_cut_answer_in_json_executes_nothing_either(
    server: ScriptedServer, transport: Any, strategy: str, finish: Any, streamed: bool
) -> None:
    def script(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            exchange.events([delta(CUT_TEXTS[strategy]), delta(finish=finish)])
        else:
            exchange.json(whole(CUT_TEXTS[strategy], finish=finish))

    server.answer(script)
    with pytest.raises((Length, Truncated, TransportError)):
        answer_of(request(strategy=strategy), transport, streamed=streamed)


@both
def test_an_answer_of_nothing_is_an_error(server: ScriptedServer, transport: Any, streamed: bool) -> None:
    server.answer(answering("  ", finish="stop"))
    with pytest.raises(Empty):
        answer_of(request(), transport, streamed=streamed)


#: A context whose newest messages are results, and one in which the user has said something since.
_CALLED = {"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
RESULTS = [
    *ASK,
    {"role": "assistant", "content": "", "tool_calls": [_CALLED]},
    {"role": "tool", "tool_call_id": "1", "content": "x"},
]
NOTHING = {"message": "", "calls": []}


def saying_nothing(text: str, finish: str | None) -> Script:
    """An answer of this text, in no form, whatever is asked for."""

    def script(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            exchange.events([delta(text), delta(finish=finish)])
        else:
            exchange.json(whole(text, finish=finish))

    return script


@both
@pytest.mark.parametrize("strategy", ["calls", "tool"])
def test_after_results_an_answer_of_nothing_says_that_the_model_is_done(
    server: ScriptedServer, transport: Any, strategy: str, streamed: bool
) -> None:
    for text in ("", " \n", "<think>All is done.</think>\n"):
        server.answer(saying_nothing(text, "stop"))
        answer = answer_of(request(context=RESULTS, strategy=strategy), transport, streamed=streamed)
        assert (answer.result.solution, answer.text.strip(), answer.result.attempts) == (NOTHING, "", 1)
    for finish in ("length", "tool_calls", "content_filter"):
        server.answer(saying_nothing("", finish))
        with pytest.raises((Empty, Length, ContentFilter)):
            answer_of(request(context=RESULTS, strategy=strategy), transport, streamed=streamed)
    for context in (ASK, [*RESULTS, {"role": "user", "content": "And b?"}]):
        server.answer(saying_nothing("", "stop"))
        with pytest.raises(Empty):
            answer_of(request(context=context, strategy=strategy), transport, streamed=streamed)


@pytest.mark.parametrize("strategy", ["native", "json"])
def test_after_results_an_answer_without_its_form_is_an_error(
    server: ScriptedServer, transport: Any, strategy: str
) -> None:
    server.answer(saying_nothing("", "stop"))
    with pytest.raises(Empty):
        answer_of(request(context=RESULTS, strategy=strategy), transport)


@both
def test_nothing_is_no_answer_to_the_errors_of_calls(server: ScriptedServer, transport: Any, streamed: bool) -> None:
    """The model is told that its calls were not executed: it cannot be done then."""
    server.answer(answering("", ("unknown", "{}")), saying_nothing("", "stop"))
    with pytest.raises(Empty):
        answer_of(request(context=RESULTS), transport, streamed=streamed)
    assert len(server.requests) == 2


def test_a_connection_lost_among_the_calls_is_an_error(server: ScriptedServer, transport: Any) -> None:
    def lost(exchange: Exchange) -> None:
        exchange.events([delta(tool_calls=[piece(0, "x", "read", A)])], done=False)

    server.answer(lost)
    with pytest.raises(ModelError) as caught:
        answer_of(request(), transport)
    assert (caught.value.code, caught.value.attempts) == ("truncated", 1)


# Repairs.

#: Calls that are wrong, and what the model is told of them, by their place.
WRONG: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "an argument": ([("read", '{"path": 5, "limit": null}')], ["is not of type"]),
    "no argument": ([("read", "")], ["is a required property"]),
    "cut arguments": ([("read", '{"path": "a')], ["not valid JSON"]),
    "no object": ([("read", "[1]")], ["not a JSON object"]),
    "prose": ([("read", "the file a")], ["not valid JSON"]),
    "one of two": ([("read", A), ("read", '{"path": 5}')], ["Not executed", "is not of type"]),
    "both": ([("read", "{"), ("git_diff", "}")], ["not valid JSON", "not valid JSON"]),
    "a name beside a good call": ([("read", A), ("rm", "{}")], ["there is no function 'rm'"]),
}


@both
@pytest.mark.parametrize("name", WRONG)
def test_every_call_of_a_wrong_answer_gets_a_result(
    server: ScriptedServer, transport: Any, name: str, streamed: bool
) -> None:
    calls, told = WRONG[name]
    server.answer(answering("I read.", *calls), answering("Again.", ("read", B)))
    answer = answer_of(request(), transport, streamed=streamed)
    assert answer.result.solution == {"message": "I read." if streamed else "Again.", "calls": [READ_B]}
    assert answer.result.attempts == 2
    if streamed:
        assert (answer.text, answer.items) == ("I read.", [READ_B])
    first, second = server.requests
    assert second["tools"] == first["tools"]
    assistant, *results = second["messages"][-1 - len(told) :]
    assert (assistant["role"], assistant["content"]) == ("assistant", "I read.")
    assert [result["role"] for result in results] == ["tool"] * len(told)
    assert [result["tool_call_id"] for result in results] == [call["id"] for call in assistant["tool_calls"]]
    names = {tool["function"]["name"] for tool in second["tools"]}
    for call, result, words in zip(assistant["tool_calls"], results, told, strict=True):
        assert call["function"]["name"] in names
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert words in result["content"]


def test_a_call_of_no_function_alone_is_told_as_text(server: ScriptedServer, transport: Any) -> None:
    server.answer(answering("", ("rm", "{}")), answering("", ("read", A)))
    assert request().run(transport).solution["calls"] == [READ_A]
    *_, assistant, user = server.requests[1]["messages"]
    assert "tool_calls" not in assistant
    assert (user["role"], "read, git_diff" in user["content"]) == ("user", True)


def test_a_schema_may_ask_for_more_than_a_function_can(server: ScriptedServer, transport: Any) -> None:
    schema = closed(obj(message={**STRING, "minLength": 3}, calls={**array({"anyOf": [READ]}), "minItems": 1}))
    server.answer(answering("No", finish="stop"), answering("Yes.", ("read", A)))
    assert request(schema).run(transport).solution == {"message": "Yes.", "calls": [READ_A]}
    assert "/calls" in server.requests[1]["messages"][-1]["content"]


def test_repairs_end(server: ScriptedServer, transport: Any) -> None:
    server.answer(answering("", ("rm", "{}")))
    with pytest.raises(InvalidAnswer) as caught:
        request(max_repairs=2).run(transport)
    assert caught.value.attempts == 3
    assert caught.value.errors == ["/calls/0: there is no function 'rm'; call one of read, git_diff"]


# Where it is refused.

REFUSALS: dict[str, tuple[int, str]] = {
    "no tools": (400, "this model does not support tools"),
    "vLLM without a parser": (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
    "llama.cpp without a template": (500, "tools param requires --jinja flag"),
    "parallel calls in the conversation": (500, "This model only supports single tool-calls at once!"),
    "no signature": (400, "Function call is missing a thought_signature in functionCall parts."),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_the_next_way_is_tried_where_calls_are_refused(server: ScriptedServer, transport: Any, name: str) -> None:
    status, message = REFUSALS[name]
    server.answer(failing(status, message), saying('{"message": "Hello", "calls": []}'))
    unsupported = UnsupportedFeatures()
    result = request(unsupported=unsupported).run(transport)
    assert (result.strategy, result.attempts) == ("native", 2)
    assert unsupported.of(server.url, "m") == {"calls"}
    assert request(unsupported=unsupported).run(transport).attempts == 1


def test_parallel_calls_and_strict_may_be_refused(server: ScriptedServer, transport: Any) -> None:
    server.answer(
        failing(400, "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."),
        failing(400, "Unknown parameter: 'tools[0].function.strict'."),
        answering("", ("read", A)),
    )
    unsupported = UnsupportedFeatures()
    result = request(unsupported=unsupported).run(transport)
    assert (result.strategy, result.solution["calls"]) == ("calls", [READ_A])
    assert ["parallel_tool_calls" in body for body in server.requests] == [True, False, False]
    assert unsupported.of(server.url, "m") == {"parameter:parallel_tool_calls", "tool:strict"}


@pytest.mark.parametrize("message", ["The function timed out.", "overloaded"])
def test_what_blames_no_calls_does_not_end_them(server: ScriptedServer, transport: Any, message: str) -> None:
    server.answer(failing(500, message), answering("", ("read", A)))
    assert request().run(transport).strategy == "calls"


def test_a_call_that_the_provider_could_not_read_is_asked_for_again(server: ScriptedServer, transport: Any) -> None:
    """Groq answers with a 400 that is about the model's answer, not about the request."""
    error = {"message": "Failed to call a function: tool call validation failed", "code": "tool_use_failed"}
    server.answer(lambda exchange: exchange.json({"error": error}, 400), answering("", ("read", A)))
    result = request().run(transport)
    assert (result.strategy, result.attempts) == ("calls", 2)


def test_a_refusal_of_the_repair_tells_the_calls_in_the_form_of_the_answer(
    server: ScriptedServer, transport: Any
) -> None:
    server.answer(
        answering("I read.", ("read", "{}"), ("git_diff", '{"set": []}')),
        failing(500, "This model only supports single tool-calls at once!"),
        saying('{"message": "x", "calls": [{"_tool": "read", "path": "a", "limit": null}]}'),
    )
    answer = answer_of(request(), transport)
    assert answer.result.solution == {"message": "I read.", "calls": [READ_A]}
    messages = server.requests[2]["messages"]
    assert not any("tool_calls" in message or message["role"] == "tool" for message in messages)
    assert json.loads(messages[-2]["content"])["calls"][1] == {"_tool": "git.diff", "set": []}


# The history.


def called(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Look"},
    {"role": "assistant", "content": "", "tool_calls": [called("c1", "git.diff"), called("c2", "read", path="é")]},
    result("c2", "text"),
    result("c1", "diff"),
    {"role": "assistant", "content": "Running.", "tool_calls": [called("call_3", "run", command="ls")]},
    result("call_3", "out"),
    {"role": "user", "content": "And now?"},
]  # fmt: skip


def messages_of(server: ScriptedServer, transport: Any, context: list[dict[str, Any]], **config: Any) -> Any:
    server.says('{"message": "x", "calls": []}')
    request(context=context, **config).run(transport)
    return server.requests[-1]["messages"][1:]  # behind the instructions


def test_past_calls_are_native_with_results_in_their_order(server: ScriptedServer, transport: Any) -> None:
    user, assistant, first, second, running, told = messages_of(server, transport, HISTORY)
    assert user == HISTORY[0]
    assert [(call["id"], call["function"]["name"]) for call in assistant["tool_calls"]] == [
        ("call00000", "git_diff"),
        ("call00001", "read"),
    ]
    assert assistant["tool_calls"][1]["function"]["arguments"] == '{"path": "é"}'
    assert [first, second] == [result("call00000", "diff"), result("call00001", "text")]
    assert running == {"role": "assistant", "content": "Running."}, "its function is not offered any more"
    assert told["role"] == "user"
    assert 'run\nwith {"command": "ls"}\n```\nout\n```' in told["content"]
    assert told["content"].endswith("And now?")


def test_what_a_provider_wants_of_native_calls(server: ScriptedServer, transport: Any) -> None:
    context = [*HISTORY[:4], {"role": "user", "content": "Stop"}]
    gemini = messages_of(server, transport, context, provider="gemini")
    signature = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert all(call["extra_content"] == signature for call in gemini[1]["tool_calls"])
    mistral = messages_of(server, transport, context, provider="mistral")
    assert [message["role"] for message in mistral] == ["user", "assistant", "tool", "tool", "assistant", "user"]


def test_the_beginning_of_a_native_history_stays_the_same(server: ScriptedServer, transport: Any) -> None:
    step = [
        {"role": "assistant", "content": "", "tool_calls": [called("call_9", "read", path="z")]},
        result("call_9", "r"),
    ]
    before = messages_of(server, transport, HISTORY[:4])
    assert messages_of(server, transport, [*HISTORY[:4], *step])[: len(before)] == before


def test_a_thinking_model_whose_thoughts_cannot_come_back_is_asked_in_another_way(
    server: ScriptedServer, transport: Any
) -> None:
    server.says('{"message": "x", "calls": []}')
    assert request(provider="anthropic", thinking=True).run(transport).strategy != "calls"
    assert request(provider="anthropic", thinking=False).run(transport).strategy == "calls"
    assert request(provider="deepseek", thinking=True).run(transport).strategy == "calls"


def test_items_are_told_once_the_answer_is_valid(server: ScriptedServer, transport: Any) -> None:
    server.answer(answering("", ("read", A), ("read", '{"path": 5}')), answering("", ("read", B)))
    items = [event for event in request().stream(transport) if isinstance(event, ItemDone)]
    assert items == [ItemDone(0, READ_B, attempt=2)]
    server.answer(answering("x", ("read", A)))
    fields: Callable[..., Any] = lambda **config: answer_of(request(**config), transport)  # noqa: E731
    assert fields(stream_items=None).items == []
    assert fields(stream_fields=("other",)).text == ""


def test_the_fake_of_a_model_that_calls_functions() -> None:
    text, [call] = native_calls('<think>{}</think>{"message": "Hi", "calls": [{"_tool": "a.b", "c": 1}]}')
    assert (text, call["function"]) == ("<think>{}</think>Hi", {"name": "a_b", "arguments": '{"c": 1}'})
