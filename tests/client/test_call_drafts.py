"""Drafts of calls at the terminal: shown while they say most, safely, and never in place of a question."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from codelab_client.session import events as on
from codelab_client.session.call_drafts import CallDrafts
from codelab_client.session.events import event_of
from codelab_client.session.hello import Hello
from codelab_client.terminal.conversation import Screen, TerminalConversation
from codelab_client.terminal.status_line import status_line

from tests.cases import cases

CALL = {"type": "tool_call", "call_id": "c1", "tool_name": "write_file", "turn_id": "t", "requires_approval": True}


def draft(index: int = 0, message: str = "m", **fields: Any) -> on.Event:
    written = {"tool_name": "write_file", "path": "new.py", "lines": 42, "chars": 900, "tail": "x = 1", **fields}
    return event_of({"type": "tool_call_draft", "message_id": message, "turn_id": "t", "index": index, **written})


def after(*events: on.Event) -> list[tuple[int, str]]:
    drafts = CallDrafts()
    for event in events:
        drafts.take(event)
    return [(index, shown.message_id) for index, shown in drafts.shown.items()]


def test_a_later_call_is_the_newest_and_an_earlier_one_voids_it() -> None:
    assert after(draft(0), draft(1)) == [(0, "m"), (1, "m")]
    assert after(draft(0), draft(1), draft(0)) == [(0, "m")]
    assert after(draft(0), draft(1), draft(0, withdrawn=True)) == []
    assert after(draft(0), draft(0, withdrawn=True), draft(0)) == [(0, "m")]
    assert after(draft(0), draft(1), draft(0, "n")) == [(0, "n")]


@cases(
    ("fields", "ends"),
    [
        (CALL, True),
        (CALL | {"turn_id": "other"}, False),
        ({"type": "turn_end", "turn_id": "t", "reason": "error"}, True),
        ({"type": "agent_status", "status": "waiting_approval"}, True),
        ({"type": "agent_status", "status": "thinking"}, False),
        ({"type": "message_discarded", "message_id": "m"}, True),
        ({"type": "assistant_message", "token": "x", "message_id": "m", "turn_id": "t"}, False),
        ({"type": "assistant_message", "token": "x", "message_id": "n", "turn_id": "t"}, True),
        ({"type": "queued", "client_msg_id": "q", "position": 1}, False),
    ],
)
def test_what_says_more_ends_them_and_late_ones_are_ignored(fields: dict[str, Any], ends: bool) -> None:
    assert (after(draft(), event_of(fields)) == []) is ends
    assert (after(draft(), event_of(fields), draft()) == []) is ends


def test_a_lost_connection_removes_them_until_the_next() -> None:
    lost = on.Disconnected(why="", retry_in=1)
    assert after(draft(), lost) == []
    assert after(draft(), lost, draft()) == [(0, "m")]


def test_only_who_wants_drafts_asks_for_them() -> None:
    assert Hello(None).frame()["capabilities"] == {}
    assert Hello(None, drafts=True).frame()["capabilities"] == {"drafts": True}


def test_the_terminal_says_what_is_written_and_shows_the_newest_lines(tmp_path: Path) -> None:
    async def look() -> None:
        screen = SimpleNamespace(show=lambda _card: None, changed=lambda: None)
        conversation = TerminalConversation(tmp_path, cast(Screen, screen))
        session = SimpleNamespace(status="thinking", queued={}, plan=[], info=None, agent="coder", open_calls={})
        conversation.session = cast(Any, session)
        conversation.take(draft())
        assert status_line(conversation, 200).startswith("writing new.py, 42 lines · ")
        assert conversation.live() == ["  x = 1"]
        conversation.take(
            draft(path="a\u202e\x1b[2Jb\nc" + "x" * 999, lines=1, tail="\x1b]0;title\x07\u202egp.exe\n" * 9)
        )
        line, live = status_line(conversation, 200), conversation.live()
        assert line.startswith("writing a<U+202E>␛[2Jb␊c")
        assert ", 1 line · " in line
        assert len(line) < 100
        assert live == ["  ␛]0;title␇<U+202E>gp.exe"] * 6
        conversation.take(draft(withdrawn=True))
        assert status_line(conversation, 200).startswith("thinking · ")
        assert conversation.live() == []

    asyncio.run(look())
