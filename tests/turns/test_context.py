"""What a model is sent of the history."""

import pytest
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions.items import CallRequest
from codelab.turns.text import head_and_tail

from tests.turns.history import message, sent


def call(call_id):
    return CallRequest(call_id, "read_file", {"path": "a"})


def test_results_follow_the_answer_that_made_the_calls_in_its_order():
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


def test_a_call_without_a_result_gets_one_and_a_result_without_its_call_goes():
    found = sent(
        message(3, "tool", "lost its call", call_id="c0"),
        message(4, "user", "go on"),
        message(5, "assistant", "", calls=(call("c1"),)),
    )
    assert [m["role"] for m in found] == ["system", "user", "assistant", "tool"]
    assert "interrupted" in found[-1]["content"]


def test_two_questions_in_a_row_become_one_message():
    found = sent(message(1, "user", "one"), message(2, "user", "two"))
    assert [m["role"] for m in found] == ["system", "user"]
    assert found[1]["content"] == "one\n\ntwo"


def test_the_newest_messages_are_kept_and_a_conversation_begins_with_the_user():
    history = []
    for n in range(1, 41, 2):
        history += [message(n, "user", f"question {n} " + "word " * 60), message(n + 1, "assistant", "said " * 60)]
    history.append(message(41, "user", "the last one"))
    found = sent(*history, budget=600)
    assert found[-1]["content"].endswith("the last one")
    assert found[1]["role"] == "user"
    assert len(found) < 15


def test_a_message_that_cannot_fit_is_too_large():
    with pytest.raises(ProtocolError) as caught:
        sent(message(1, "user", "word " * 2_000), budget=1_000)
    assert caught.value.code is ErrorCode.CONTEXT_TOO_LARGE


def test_a_big_result_is_cut_in_its_middle():
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
