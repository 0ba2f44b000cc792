"""A process reads the messages of its sessions once, and never shows those of a session that is gone."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from codelab.sessions import keys
from codelab.sessions.dynamodb import kept_history
from codelab.sessions.dynamodb.kept_history import Kept, KeptHistory
from codelab.sessions.dynamodb.store import DynamoDBStore
from codelab.sessions.items import CallRequest, MessageItem, SummaryItem
from codelab.sessions.transition import Transition

from tests.functions.system import System

#: Of `message`, which is kept with its JSON.
SIZE = 2 * 1_000 + kept_history._OBJECTS


def message(n: int, content: str = "x" * 1_000) -> MessageItem:
    return MessageItem(n, "user", content, at=0, turn_id="t")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The messages that each step has read."""
    found: list[list[str]] = []
    items = DynamoDBStore.items

    def noted(store: DynamoDBStore, pk: str, wanted: Sequence[str]) -> Any:
        if any(sk.startswith("MESSAGE#") for sk in wanted):
            found.append([sk for sk in wanted if sk.startswith("MESSAGE#")])
        return items(store, pk, wanted)

    monkeypatch.setattr(DynamoDBStore, "items", noted)
    return found


def test_a_step_reads_only_messages_that_its_process_has_not_read(connected: System, read: list[list[str]]) -> None:
    for content in ("one", "two", "three"):
        connected.ask("c1", f"answer {content}")
    assert [len(messages) for messages in read] == [1, 2, 2]
    asked = json.dumps(connected.model.requests[-1])
    assert all(f"answer {content}" in asked for content in ("one", "two"))


def test_a_session_that_is_begun_again_under_its_id_has_none_of_the_old_messages(
    connected: System, read: list[list[str]]
) -> None:
    connected.model.says("an old answer")
    connected.say("c1", "the old secret")
    connected.ask("c1", "another old answer")
    status, _ = connected.http("DELETE", "/sessions/s1")
    assert status < 300
    connected.sweep()
    connected.connect("c2")
    connected.model.says("a new answer")
    connected.say("c2", "the new question")
    asked = json.dumps(connected.model.requests[-1])
    assert "the new question" in asked
    assert "old secret" not in asked
    assert "old answer" not in asked


def test_a_message_that_the_new_session_has_not_is_not_taken_from_the_old_one(connected: System) -> None:
    connected.model.says("an answer")
    connected.say("c1", "the old secret")
    connected.http("DELETE", "/sessions/s1")
    connected.sweep()
    connected.connect("c2")
    connected.ask("c2", "an answer")
    connected.table.delete_item(
        TableName="Table", Key={"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": keys.message_key(1)}}
    )
    connected.function("llm_request").engine.store._kept_history.keep(
        "SESSION#ann#s1", 1, 1, [message(1, "the old secret")]
    )
    connected.ask("c2", "another answer")
    assert "old secret" not in json.dumps(connected.model.requests[-1])


def test_what_is_kept_of_a_message_is_what_the_model_is_told() -> None:
    text, calls = message(1, "a"), replace(message(2, "b"), calls=(CallRequest("call_1", "read_file", {}),))
    assert text.text == {"role": "user", "content": "a"}
    assert text.text is text.text
    assert replace(text, content="c").text == {"role": "user", "content": "c"}
    assert calls.text is None
    assert MessageItem.of(text.row()) == text


def test_messages_that_another_session_of_the_same_id_had_are_read_again() -> None:
    kept = KeptHistory()
    kept.keep("s", 1, 1, [message(1, "old"), message(2, "old")])
    kept.keep("s", 2, 1, [message(1, "new"), message(2, "new")])
    assert kept.of("s") == Kept(2, 1, [message(1, "new"), message(2, "new")], 2 * SIZE - 4 * 997)


def test_messages_that_left_the_context_are_not_kept_and_a_context_that_begins_earlier_is_read_again() -> None:
    kept = KeptHistory()
    kept.keep("s", 1, 1, [message(n) for n in range(1, 5)])
    kept.keep("s", 1, 3, [*kept.of("s").of(3, 4), message(5)])
    kept.keep("s", 1, 4, [message(4)])  # of a step that is late
    assert (kept.of("s").first, kept.of("s").end, kept.of("s").size) == (3, 6, 3 * SIZE)
    assert [it.n for it in kept.of("s").of(4, 9)] == [4, 5]
    assert [it.n for it in kept.of("s").of(3, 4)] == [3, 4]
    assert kept.of("s").of(6, 9) == kept.of("s").of(9, 9) == kept.of("s").of(2, 5) == kept.of("s").of(3, 1) == []
    kept.keep("s", 1, 2, [message(n) for n in range(2, 6)])
    assert (kept.of("s").first, kept.of("s").size) == (2, 4 * SIZE)
    kept.keep("s", 1, 9, [message(9)])
    assert (kept.of("s").first, kept.of("s").size) == (9, SIZE)


def test_a_summary_is_kept_with_the_messages_behind_it() -> None:
    kept, old, new = KeptHistory(), SummaryItem(2, "s" * 1_000, 0), SummaryItem(3, "", 0)
    kept.keep("s", 1, 3, [message(3)], old)
    assert (kept.of("s").summary_of(2), kept.of("s").summary_of(3)) == (old, None)
    both = kept.of("s").size
    kept.keep("s", 1, 4, [message(4)], new)
    assert (kept.of("s").summary_of(2), kept.of("s").summary_of(3)) == (None, new)
    assert kept.of("s").size == both - 1_000
    kept.keep("s", 1, 4, [], old)  # of a step that is late
    assert kept.of("s").summary_of(3) == new
    kept.keep("s", 1, 4, [message(4)], old)
    assert kept.of("s") == Kept(1, 4, [message(4)], both, old)
    kept.keep("s", 2, 4, [message(4)])
    assert kept.of("s") == Kept(2, 4, [message(4)], SIZE)


@pytest.mark.parametrize("kept", [[message(3)], []])
def test_a_summary_is_read_once_and_not_taken_from_a_session_that_is_gone(
    connected: System, monkeypatch: pytest.MonkeyPatch, kept: list[MessageItem]
) -> None:
    def summarised(created_at: int | None, content: str) -> None:
        """Two messages of the session are summarised, as a compaction does it."""
        store = connected.function("llm_request").engine.store
        register = store.read(pk)
        assert register is not None
        after = replace(register.copy(), summary_n=2)
        store.commit(Transition(register, after, puts=(SummaryItem(2, content, 0),)))
        if created_at is not None:
            store._kept_history.keep(pk, created_at, 3, kept, SummaryItem(2, "the old secret", 0))

    read: list[str] = []
    items = DynamoDBStore.items
    monkeypatch.setattr(
        DynamoDBStore, "items", lambda store, pk, wanted: (read.extend(wanted), items(store, pk, wanted))[1]
    )
    pk, key = "SESSION#ann#s1", keys.summary_key(2)
    connected.ask("c1", "an answer")
    summarised(None, "what was said")
    for answers in range(3):
        connected.ask("c1", f"answer {answers}")
        assert "what was said" in json.dumps(connected.model.requests[-1])
    assert read.count(key) == 1
    connected.http("DELETE", "/sessions/s1")
    connected.sweep()
    connected.connect("c2")
    connected.ask("c2", "an answer")
    summarised(1, "the new session")
    connected.ask("c2", "another answer")
    asked = json.dumps(connected.model.requests[-1])
    assert "the new session" in asked
    assert "old secret" not in asked
    assert "what was said" not in asked


def test_the_sessions_that_were_read_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_history, "MOST_BYTES", 3 * SIZE)
    kept = KeptHistory()
    for name in "abc":
        kept.keep(name, 1, 1, [message(1)])
    kept.of("a")
    kept.keep("d", 1, 1, [message(1)])
    assert [bool(kept.of(name).messages) for name in "abcd"] == [True, False, True, True]
    kept.keep("a", 1, 1, [message(n) for n in range(1, 5)])
    assert [bool(kept.of(name).messages) for name in "abcd"] == [False] * 4
    kept.keep("e", 1, 1, [message(1)])
    assert kept.of("e").size == SIZE
