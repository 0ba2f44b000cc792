"""What a model is sent of the history."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from codelab.llm.encoding import TextMessage, encode
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions.items import CallRequest, MessageItem, SummaryItem
from codelab.turns import context
from codelab.turns.text import head_and_tail

from tests.turns.history import message, sent


def call(call_id: Any) -> Any:
    return CallRequest(call_id, "read_file", {"path": "a"})


def test_results_follow_the_answer_that_made_the_calls_in_its_order() -> None:
    found = sent(
        message(1, "user", "compare"),
        message(2, "assistant", "", calls=(call("c1"), call("c2"))),
        message(3, "tool", "two", call_id="c2"),
        message(4, "tool", "one", call_id="c1"),
        message(5, "assistant", "same"),
    )
    assert [m["role"] for m in found] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [m["tool_call_id"] for m in found[3:5]] == ["c1", "c2"]
    assert [m["content"] for m in found[3:5]] == ["one", "two"]


def test_a_call_without_a_result_gets_one_and_a_result_without_its_call_goes() -> None:
    found = sent(
        message(3, "tool", "lost its call", call_id="c0"),
        message(4, "user", "go on"),
        message(5, "assistant", "", calls=(call("c1"),)),
    )
    assert [m["role"] for m in found] == ["system", "user", "assistant", "tool"]
    assert "interrupted" in found[-1]["content"]


def test_two_questions_in_a_row_become_one_message() -> None:
    found = sent(message(1, "user", "one"), message(2, "user", "two"))
    assert [m["role"] for m in found] == ["system", "user"]
    assert found[1]["content"] == "one\n\ntwo"


def test_the_newest_messages_are_kept_and_a_conversation_begins_with_the_user() -> None:
    history = []
    for n in range(1, 41, 2):
        history += [message(n, "user", f"question {n} " + "word " * 60), message(n + 1, "assistant", "said " * 60)]
    history.append(message(41, "user", "the last one"))
    found = sent(*history, budget=600)
    assert found[-1]["content"].endswith("the last one")
    assert found[1]["role"] == "user"
    assert len(found) < 15


def test_a_message_that_cannot_fit_is_too_large() -> None:
    with pytest.raises(ProtocolError) as caught:
        sent(message(1, "user", "word " * 2_000), budget=1_000)
    assert caught.value.code is ErrorCode.CONTEXT_TOO_LARGE


def test_a_big_result_is_cut_in_its_middle() -> None:
    found = sent(
        message(1, "user", "read"),
        message(2, "assistant", "", calls=(call("c1"),)),
        message(3, "tool", "begin" + "x" * 100_000 + "end", call_id="c1"),
        budget=1_000,
    )
    content = found[-1]["content"]
    assert content.startswith("begin")
    assert content.endswith("end")
    assert "cut out" in content
    assert head_and_tail("short", 10) == "short"


def any_history(choose: random.Random) -> list[MessageItem]:
    """Mostly texts by user and assistant in turns; sometimes with something else between them."""
    begins, last = choose.randrange(2), choose.randrange(6, 35)
    roles = ("user", "assistant") if begins else ("assistant", "user")
    history = [message(n, roles[n % 2], f"{n} " + "word " * choose.randrange(60)) for n in range(5, last)]
    if choose.random() < 0.3:
        n = choose.randrange(5, last)
        history[n - 5] = choose.choice(
            [
                message(n, "user", "one more"),
                message(n, "system", "a rule"),
                message(n, "assistant", "", calls=(call("c1"),)),
                message(n, "tool", "lost its call", call_id="c0"),
            ]
        )
    return history


def test_a_conversation_of_texts_is_told_as_any_other_although_it_takes_a_shorter_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took_it = 0

    def begun(opening: str, texts: Sequence[TextMessage]) -> Sequence[dict[str, Any]]:
        nonlocal took_it
        took_it += 1
        return really_begun(opening, texts)

    really_begun = context._with_opening
    monkeypatch.setattr(context, "_with_opening", begun)
    for seed in range(600):
        choose = random.Random(seed)
        history, budget = any_history(choose), choose.choice((150, 400, 8_000))
        for told_before in history[: choose.randrange(len(history) + 1)]:
            assert told_before.text is None or told_before.text
        read: dict[str, Any] = {"turn_n": choose.choice((0, history[-1].n, history[0].n))}
        if choose.random() < 0.4:
            read["summary"] = SummaryItem(4, "So far.", at=0)
        assert told(history, budget, read) == told([replace(it, content=it.content) for it in history], budget, read)
        with monkeypatch.context() as patched:
            short = told(history, budget, read)
            patched.setattr(context, "texts_in_turns", lambda *_: [])
            assert told(history, budget, read) == short, f"seed {seed}"
    assert 200 < took_it < 1_000


def told(history: Sequence[MessageItem], budget: int, read: Mapping[str, Any]) -> bytes | ErrorCode:
    """What a model gets, or why it gets nothing."""
    try:
        return encode({"messages": sent(*history, budget=budget, **read)})
    except ProtocolError as error:
        return error.code


def test_messages_that_will_not_be_sent_are_not_estimated() -> None:
    history = [message(n, ("assistant", "user")[n % 2], f"{n} " + "word " * 200) for n in range(1, 42)]
    assert len(sent(*history, budget=1_000)) < 6
    assert [it._text is None for it in history[:30]] == [True] * 30
