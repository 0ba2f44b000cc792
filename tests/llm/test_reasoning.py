"""Thoughts in the text of an answer are always removed and never mistaken for it."""

from __future__ import annotations

import itertools
import json
import random
import time
from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import Empty, TransportError
from codelab.llm.outcome import Done, ThinkingDelta
from codelab.llm.profiles import STRATEGIES
from codelab.llm.reasoning import Separator

from tests.cases import cases
from tests.fakes.model.wire import ScriptedServer, argument, delta, saying
from tests.llm.answer import answer_of
from tests.llm.schemas import STRING, array, obj

ANSWER = '{"message": "Hello", "calls": []}'
DRAFT = '{"message": "draft", "calls": [{"no": 1}]}'
TAGS = '{"message": "Write <think>x</think>, </think> and <REASONING a=\\"1\\">", "calls": []}'
SCHEMA = obj(message=STRING, calls=array({"type": "object"}))


def separated(pieces: list[str], *, prose: bool) -> tuple[str, str]:
    """The answer and the thoughts."""
    thoughts: list[str] = []
    separator = Separator(thoughts, prose=prose)
    for piece in pieces:
        separator.feed(piece)
    separator.finish()
    return separator.text.strip(), "".join(thoughts).strip()


#: What a model says, the answer in it, and the thoughts in it.
SAID = {
    "nothing but the answer": (ANSWER, ANSWER, ""),
    "one block": (f"<reasoning>Maybe {DRAFT}</reasoning>{ANSWER}", ANSWER, f"Maybe {DRAFT}"),
    "a block a chunk": ("<reasoning>a b</reasoning><reasoning> c</reasoning>" + ANSWER, ANSWER, "a b c"),
    "space around the blocks": (f"\n<think>\na\n</think>\n\n{ANSWER}\n", ANSWER, "a"),
    "an empty block": (f"<think></think>{ANSWER}", ANSWER, ""),
    "capitals and attributes": (f"<THINK kind='x y'>{DRAFT}</Think >{ANSWER}", ANSWER, DRAFT),
    "the other names": (f"<thinking>a</thinking><thought>b</thought>{ANSWER}", ANSWER, "ab"),
    "a block behind the answer": (f"{ANSWER}<think>or {DRAFT}</think>", ANSWER, f"or {DRAFT}"),
    "a block between two keys": ('{"message": "Hello", <think>"message": "draft"</think>"calls": []}', ANSWER,
                                 '"message": "draft"'),
    "tags in the user's strings": (TAGS, TAGS, ""),
    "tags in strings behind a block": (f"<think>a</think>{TAGS}", TAGS, "a"),
    "quotes and braces in a thought": (f'<think>it\'s "{{ and {{"a\\</think>{TAGS}', TAGS, 'it\'s "{ and {"a\\'),
    "a block that nobody closes": (f"<think>Well, {DRAFT}", "", f"Well, {DRAFT}"),
    "a block without an answer": ("<reasoning>Done.</reasoning>", "", "Done."),
    "a nested block": (f"<think>a<think>b</think>{DRAFT}</think>{ANSWER}", ANSWER, f"a<think>b</think>{DRAFT}"),
    "a thought that mentions the tag": (f"<think>the <think> tag</think>{ANSWER}", ANSWER, "the <think> tag"),
    "no opening tag": (f"Okay, it's \"so.</think>\n{ANSWER}", ANSWER, 'Okay, it\'s "so.'),
    "no opening tag, with a draft": (f"Okay: {DRAFT}. No.</think>\n{ANSWER}", ANSWER, f"Okay: {DRAFT}. No."),
    "a draft from the first character": (f"{DRAFT}</think>{ANSWER}", ANSWER, DRAFT),
    "a closing tag behind the answer": (f"{ANSWER}</think>", ANSWER, ""),
    "what only looks like a tag": (f"<b>5 < 6</b> {ANSWER}", f"<b>5 < 6</b> {ANSWER}", ""),
    "a tag that is not complete": ("<thi", "<thi", ""),
    "nothing": ("", "", ""),
}  # fmt: skip


@cases("prose", [False, True])
@cases("name", SAID)
def test_thoughts_are_separated_however_the_text_is_cut(name: str, prose: bool) -> None:
    said, answer, thoughts = SAID[name]
    assert separated([said], prose=prose) == (answer, thoughts)
    assert separated(list(said), prose=prose) == (answer, thoughts)
    rng = random.Random(name)
    for _ in range(200):
        points = sorted(rng.randrange(len(said) + 1) for _ in range(rng.randrange(8)))
        pieces = [said[a:b] for a, b in itertools.pairwise([0, *points, len(said)])]
        assert separated(pieces, prose=prose) == (answer, thoughts), pieces


#: A text for people, the text without its thoughts, and the thoughts.
TEXTS = {
    "nothing but text": ("Hello <think>.", "Hello <think>.", ""),
    "a block before it": ("<think>a\n</think>\n\nHello", "Hello", "a"),
    "a block a chunk": ("<reasoning>a</reasoning><reasoning> b</reasoning>Hello", "Hello", "a b"),
    "tags in the text": ('Write `<think>x</think>`, {"a": 1}', 'Write `<think>x</think>`, {"a": 1}', ""),
    "tags behind a block": ("<think>a</think>The </think> tag", "The </think> tag", "a"),
    "a block that nobody closes": ("<think>Well, hello", "", "Well, hello"),
    "a nested block": ("<think>a<think>b</think>c</think>Hello", "Hello", "a<think>b</think>c"),
    "a thought that mentions the tag": ("<think>the <think> tag</think>Hello", "Hello", "the <think> tag"),
    "what only looks like a tag": ("<thin> < b", "<thin> < b", ""),
    "a tag that is not complete": ("<thi", "<thi", ""),
    "JSON": ('{"a": "<think>b</think>"}', '{"a": "<think>b</think>"}', ""),
    "space": (" \n ", "", ""),
}


@cases("name", TEXTS)
def test_thoughts_before_a_text_are_separated_and_tags_in_it_are_not(name: str) -> None:
    said, answer, thoughts = TEXTS[name]
    for size in range(1, len(said) + 1):
        found: list[str] = []
        separator = Separator(found, is_text=True)
        fed = "".join(separator.feed(said[at : at + size]) for at in range(0, len(said), size)) + separator.finish()
        assert (fed.strip(), separator.text.strip()) == (answer, answer), size
        assert "".join(found).strip() == thoughts, size


def test_a_text_is_not_held_back() -> None:
    separator = Separator([], is_text=True)
    assert [separator.feed(piece) for piece in ("\n", "Okay, ", "I ", "read <b")] == ["", "Okay, ", "I ", "read <b"]


@pytest.mark.parametrize("said", ['"<think>a</think>"', '["<think>a</think>"]', '<think>b</think>["<think>"]'])
def test_an_answer_may_be_any_json_value(said: str) -> None:
    answer, _ = separated(list(said), prose=False)
    assert json.loads(answer)


def test_an_answer_streams_at_once_but_possible_thoughts_are_held() -> None:
    separator = Separator([], prose=True)
    assert [separator.feed(piece) for piece in ("<think>x</th", "ink>", '{"', 'message": "He', "llo")] == [
        "", "", '{"', 'message": "He', "llo",
    ]  # fmt: skip
    separator = Separator([], prose=True)
    assert [separator.feed(piece) for piece in ("Okay, ", '{"message": "dra', 'ft"}')] == ["", "", ""]
    assert separator.finish() == 'Okay, {"message": "draft"}'


@cases(
    "piece",
    ["word ", '\\"a ', "a < b ", "<think>", "</think>", "{", '{"', "{}", "<think", '{"a": "', "`", "[[", "{  "],
)
@cases("before", ["", "<think>", "Well, ", '{"message": "', "<think>a</think>", '{"a": [', "{}"])
def test_the_cost_is_linear_in_the_length(piece: str, before: str) -> None:
    """Ten times the pieces may cost ten times as much, not a hundred times."""

    def cost(count: int) -> float:
        best = float("inf")
        for _ in range(2):
            separator = Separator([], prose=True)
            started = time.process_time()
            separator.feed(before)
            for _ in range(count):
                separator.feed(piece)
            separator.finish()
            best = min(best, time.process_time() - started)
        return best

    assert cost(4_000) < 50 * max(cost(400), 0.001)


# Through the Request: every strategy, streamed and whole.

#: One for the strategy `calls`.
WITH_TOOL = obj(message=STRING, calls=array({"anyOf": [obj(_tool={"const": "read"})]}))


def asked(strategy: str, **config: Any) -> Request:
    settings = RequestConfig("m", provider="generic", strategy=strategy, strict=False, **config)  # type: ignore[arg-type]
    schema = WITH_TOOL if strategy == "calls" else SCHEMA
    return Request(settings, schema, [{"role": "user", "content": "?"}], unsupported=UnsupportedFeatures())


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_draft_in_a_thought_is_not_the_answer(
    server: ScriptedServer, transport: Any, strategy: str, streamed: bool, size: int
) -> None:
    server.answer(saying(f"<reasoning>Maybe {DRAFT}?</reasoning>{ANSWER}", size=size))
    answer = answer_of(asked(strategy), transport, streamed=streamed)
    assert (answer.result.solution, answer.result.attempts) == (json.loads(ANSWER), 1)
    assert answer.result.strategy == strategy
    assert (answer.text, answer.thoughts) == (("Hello", f"Maybe {DRAFT}?") if streamed else ("", ""))


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tags_in_a_value_reach_the_user(server: ScriptedServer, transport: Any, strategy: str, streamed: bool) -> None:
    server.answer(saying(f"<think>a</think>{TAGS}", size=3))
    answer = answer_of(asked(strategy), transport, streamed=streamed)
    assert answer.result.solution == json.loads(TAGS)
    assert answer.text == (json.loads(TAGS)["message"] if streamed else "")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("strategy", ["native", "json", "calls"])
@pytest.mark.parametrize("said", [f"<think>Well, {DRAFT}", "<reasoning>Done.</reasoning>", f"<think>{ANSWER}</think>"])
def test_thoughts_alone_are_an_empty_answer_after_one_call(
    server: ScriptedServer, transport: Any, strategy: str, streamed: bool, said: str
) -> None:
    server.answer(saying(said))
    with pytest.raises(Empty) as caught:
        answer_of(asked(strategy), transport, streamed=streamed)
    assert (caught.value.attempts, caught.value.streamed) == (1, {})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_thoughts_in_a_separate_field_are_yielded(
    server: ScriptedServer, transport: Any, strategy: str, field: str
) -> None:
    said = {"tool": argument(ANSWER, name="generate_response"), "calls": delta("Hello")}
    answer = [said.get(strategy, delta(ANSWER))]
    chunks = [delta("", **{field: "Maybe "}), delta(**{field: DRAFT}), *answer, delta(finish="stop")]
    server.answer(lambda exchange: exchange.events(chunks))
    answer = answer_of(asked(strategy), transport)
    assert (answer.result.solution, answer.text, answer.thoughts) == (json.loads(ANSWER), "Hello", f"Maybe {DRAFT}")


def test_thoughts_beside_a_function_call_are_yielded(server: ScriptedServer, transport: Any) -> None:
    thoughts = [delta("<reasoning>We need to"), delta(f" call {DRAFT}.</reasoning>")]
    call = [argument("", name="generate_response"), argument(ANSWER[:20]), argument(ANSWER[20:])]
    server.answer(lambda exchange: exchange.events([*thoughts, *call, delta(finish="tool_calls")]))
    answer = answer_of(asked("tool"), transport)
    assert (answer.result.solution, answer.text) == (json.loads(ANSWER), "Hello")
    assert answer.thoughts == f"We need to call {DRAFT}."


def test_shown_text_stays_in_the_solution_even_if_it_was_a_draft(server: ScriptedServer, transport: Any) -> None:
    real = '{"message": "Hello", "calls": [{"yes": 1}]}'
    server.answer(saying(f"{DRAFT}</think>{real}"))
    answer = answer_of(asked("native"), transport)
    assert answer.text == "draft"
    wanted = {"message": "draft", "calls": [{"yes": 1}]}
    assert answer.result.solution == wanted, "a draft's calls are not part of the solution"
    assert asked("native").run(transport).solution == json.loads(real)


def test_a_repair_does_not_send_the_thoughts_back(server: ScriptedServer, transport: Any) -> None:
    server.answer(saying('<think>Hm.</think>{"message": 5, "calls": []}'), saying(f"<think>Ah.</think>{ANSWER}"))
    *events, done = asked("native").stream(transport)
    assert isinstance(done, Done)
    assert done.result.solution == json.loads(ANSWER)
    assert server.requests[1]["messages"][-2] == {"role": "assistant", "content": '{"message": 5, "calls": []}'}
    thoughts = {1: "", 2: ""}
    for event in events:
        if isinstance(event, ThinkingDelta):
            thoughts[event.attempt] += event.text
    assert thoughts == {1: "Hm.", 2: "Ah."}


def test_only_the_thoughts_of_the_first_choice_are_yielded(server: ScriptedServer, transport: Any) -> None:
    def two(exchange: Any) -> None:
        texts = [f"<think>{index}</think>{ANSWER}" for index in range(2)]
        exchange.events([delta(text, index=index, finish="stop") for index, text in enumerate(texts)])

    server.answer(two)
    answer = answer_of(asked("native", n=2), transport)
    assert (len(answer.result.solutions), answer.thoughts) == (2, "0")


def test_a_function_name_may_be_repeated_in_each_piece(server: ScriptedServer, transport: Any) -> None:
    pieces = [argument(piece, name="generate_response") for piece in (ANSWER[:9], ANSWER[9:])]
    server.answer(lambda exchange: exchange.events([*pieces, delta(finish="tool_calls")]))
    assert answer_of(asked("tool"), transport).result.solution == json.loads(ANSWER)


def test_an_error_in_a_choice_fails_the_run(server: ScriptedServer, transport: Any) -> None:
    broken = {"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "overloaded"}}]}
    server.answer(lambda exchange: exchange.events([delta('{"message": "He'), broken]))
    with pytest.raises(TransportError, match="overloaded") as caught:
        answer_of(asked("native"), transport)
    assert (caught.value.streamed, caught.value.attempts, caught.value.retryable) == ({"message": "He"}, 1, True)
    server.answer(lambda exchange: exchange.events([delta('{"message": "He', finish="error")]))
    with pytest.raises(TransportError):
        answer_of(asked("native"), transport)
