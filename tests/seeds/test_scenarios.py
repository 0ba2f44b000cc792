"""The five scenarios of the WebSocket Protocol document ("Сценарии использования").

The client's frames are sent as the document has them; only the example call ids give way to the real ones. The
server's come in the document's order with the document's fields and values; the text is the demonstration model's own.
Beyond the document, the server sends an approved call again with `requires_approval: false`, and the client executes
every such call: the document leaves open who executes an approved call.
"""

from collections.abc import Callable

import pytest

from tests.seeds.client import SeedIde
from tests.seeds.conftest import OpenAt

# Tools Specification, "write_file", its response.
WRITTEN = """
{
  "type": "tool_result",
  "call_id": "call_002",
  "result": {
    "success": true,
    "bytes_written": 48
  }
}
"""


def simple_dialogue(ide: SeedIde) -> None:
    """Сценарий 1: Простой диалог."""
    ide.send_seed(
        """
{
  "type": "user_message",
  "content": "Привет!",
  "role": "user"
}
"""
    )
    assert "Привет" in ide.expect_message()
    ide.expect_end()


def tool_call(ide: SeedIde) -> None:
    """Сценарий 2: Выполнение tool-call."""
    ide.send_seed(
        """
{
  "type": "user_message",
  "content": "Прочитай файл main.dart"
}
"""
    )
    assert ide.expect_message() != ""
    call = ide.expect_seed(
        """
{
  "type": "tool_call",
  "call_id": "call_001",
  "tool_name": "read_file",
  "arguments": {"path": "main.dart"},
  "requires_approval": false
}
""",
        "call_id",
    )
    ide.send_seed(
        """
{
  "type": "tool_result",
  "call_id": "call_001",
  "result": {
    "content": "void main() { ... }"
  }
}
""",
        call_001=call["call_id"],
    )
    text = ide.expect_message()
    assert "main.dart" in text
    assert "void main() { ... }" in text
    ide.expect_end()


def _create_file(ide: SeedIde) -> str:
    """What scenarios 3 to 5 begin with. Returns the id of the call that awaits approval."""
    ide.send_seed(
        """
{
  "type": "user_message",
  "content": "Создай файл test.py"
}
"""
    )
    call = ide.expect_seed(
        """
{
  "type": "tool_call",
  "call_id": "call_002",
  "tool_name": "write_file",
  "arguments": {
    "path": "test.py",
    "content": "print('hello')"
  },
  "requires_approval": true
}
""",
        "call_id",
        "arguments",
    )
    assert call["arguments"].keys() == {"path", "content"}
    assert call["arguments"]["path"] == "test.py"
    call_id: str = call["call_id"]
    return call_id


def approved(ide: SeedIde) -> None:
    """Сценарий 3: HITL - Пользователь одобрил."""
    call_id = _create_file(ide)
    shown = ide.frames[-1]
    ide.send_seed(
        """
{
  "type": "hitl_decision",
  "call_id": "call_002",
  "decision": "approve"
}
""",
        call_002=call_id,
    )
    granted = ide.next_frame()
    assert (granted["type"], granted["call_id"], granted["requires_approval"]) == ("tool_call", call_id, False)
    assert granted["arguments"] == shown["arguments"]
    ide.send_seed(WRITTEN, call_002=call_id)
    assert "test.py создан" in ide.expect_message()
    ide.expect_end()


def edited(ide: SeedIde) -> None:
    """Сценарий 4: HITL - Пользователь отредактировал."""
    call_id = _create_file(ide)
    ide.send_seed(
        """
{
  "type": "hitl_decision",
  "call_id": "call_002",
  "decision": "edit",
  "modified_arguments": {
    "path": "test_modified.py",
    "content": "print('hello world')"
  }
}
""",
        call_002=call_id,
    )
    granted = ide.next_frame()
    assert (granted["type"], granted["call_id"], granted["requires_approval"]) == ("tool_call", call_id, False)
    assert granted["arguments"] == {"path": "test_modified.py", "content": "print('hello world')"}
    ide.send_seed(WRITTEN, call_002=call_id)
    text = ide.expect_message()
    assert "test_modified.py создан" in text
    assert "test.py" not in text
    ide.expect_end()


def rejected(ide: SeedIde) -> None:
    """Сценарий 5: HITL - Пользователь отклонил."""
    call_id = _create_file(ide)
    ide.send_seed(
        """
{
  "type": "hitl_decision",
  "call_id": "call_002",
  "decision": "reject",
  "feedback": "Не хочу создавать этот файл"
}
""",
        call_002=call_id,
    )
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
    assert ide.statuses() == STATUSES[play]


def test_all_scenarios_follow_each_other_in_one_session(open_at: OpenAt) -> None:
    ide = open_at("/ws/user_session_123")
    for play, statuses in STATUSES.items():
        ide.frames.clear()
        play(ide)
        assert ide.statuses() == statuses
