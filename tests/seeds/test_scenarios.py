"""The five scenarios of the WebSocket Protocol document ("Сценарии использования").

The client's frames are sent as the document has them, but with the real call ids. The server's come in the document's
order with the document's fields and values; the text is the demonstration model's own.
Beyond the document, the server sends an approved call again with `requires_approval: false`, and the client executes
every such call: the document leaves open who executes an approved call.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.ide.seed_ide import SeedIde
from tests.protocol.conformance.seed_examples import frames
from tests.seeds.conftest import OpenAt


def seed(scenario: int, frame_type: str) -> dict[str, Any]:
    """The scenario's first frame of this type."""
    (frame, *_) = (one.value for one in frames(frame_type) if one.place.startswith(f"Сценарий {scenario}: "))
    return dict(frame)


# Tools Specification, "write_file", its response.
(WRITTEN,) = (one.value for one in frames("tool_result") if "bytes_written" in one.value.get("result", ()))


def simple_dialogue(ide: SeedIde) -> None:
    """Сценарий 1: Простой диалог."""
    ide.send_seed(seed(1, "user_message"))
    assert "Привет" in ide.expect_message()
    ide.expect_end()


def tool_call(ide: SeedIde) -> None:
    """Сценарий 2: Выполнение tool-call."""
    ide.send_seed(seed(2, "user_message"))
    assert ide.expect_message() != ""
    call = ide.expect_seed(seed(2, "tool_call"), "call_id")
    result = seed(2, "tool_result")
    ide.send_seed(result, call["call_id"])
    text = ide.expect_message()
    assert "main.dart" in text
    assert result["result"]["content"] in text
    ide.expect_end()


def _create_file(ide: SeedIde) -> dict[str, Any]:
    """What scenarios 3 to 5 begin with. Returns the call that awaits approval."""
    ide.send_seed(seed(3, "user_message"))
    call = ide.expect_seed(seed(3, "tool_call"), "call_id", "arguments")
    assert call["arguments"].keys() == {"path", "content"}
    assert call["arguments"]["path"] == "test.py"
    return call


def _write(ide: SeedIde, call_id: str, decision: dict[str, Any], arguments: dict[str, Any]) -> str:
    """The user decides, and the client executes the call with these arguments. Returns the text."""
    ide.send_seed(decision, call_id)
    granted = ide.next_frame()
    assert (granted["type"], granted["call_id"], granted["requires_approval"]) == ("tool_call", call_id, False)
    assert granted["arguments"] == arguments
    ide.send_seed(WRITTEN, call_id)
    text = ide.expect_message()
    ide.expect_end()
    return text


def approved(ide: SeedIde) -> None:
    """Сценарий 3: HITL - Пользователь одобрил."""
    call = _create_file(ide)
    assert "test.py создан" in _write(ide, call["call_id"], seed(3, "hitl_decision"), call["arguments"])


def edited(ide: SeedIde) -> None:
    """Сценарий 4: HITL - Пользователь отредактировал."""
    decision = seed(4, "hitl_decision")
    text = _write(ide, _create_file(ide)["call_id"], decision, decision["modified_arguments"])
    assert "test_modified.py создан" in text
    assert "test.py" not in text


def rejected(ide: SeedIde) -> None:
    """Сценарий 5: HITL - Пользователь отклонил."""
    ide.send_seed(seed(5, "hitl_decision"), _create_file(ide)["call_id"])
    text = ide.expect_message()
    assert "не буду создавать" in text
    assert "успешно" not in text
    ide.expect_end()


Play = Callable[[SeedIde], None]

STATUSES: dict[Play, list[str]] = {
    simple_dialogue: ["thinking", "idle"],
    tool_call: ["thinking", "executing_tool", "thinking", "idle"],
    approved: ["thinking", "waiting_approval", "executing_tool", "thinking", "idle"],
    edited: ["thinking", "waiting_approval", "executing_tool", "thinking", "idle"],
    rejected: ["thinking", "waiting_approval", "thinking", "idle"],
}


@pytest.mark.parametrize("path", ["/ws/", "/api/v1/ws/"])
@pytest.mark.parametrize("play", STATUSES, ids=lambda play: play.__name__)
def test_the_scenario_is_played_as_the_document_has_it(open_at: OpenAt, play: Play, path: str) -> None:
    ide = open_at(f"{path}user_{play.__name__}{path.count('/')}")
    play(ide)
    ide.expect_statuses(STATUSES[play])


def test_all_scenarios_follow_each_other_in_one_session(open_at: OpenAt) -> None:
    ide = open_at("/ws/user_session_123")
    for play, statuses in STATUSES.items():
        ide.frames.clear()
        play(ide)
        ide.expect_statuses(statuses)
