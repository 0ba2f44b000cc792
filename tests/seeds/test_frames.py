"""Every example of a client's frame in the three documents, sent as it stands.

An example's `call_id` is of nobody's session; with the id of a call that is open it settles or decides that call, and
what the model is told of it shows how it was understood.
"""

import json
from typing import Any

import pytest

from tests.conftest import Open
from tests.ide import Ide
from tests.scripted_model import Says, ScriptedModel, call

# Agent Protocol, "Tool Result"; the WebSocket Protocol has the same two with a comment for content.
SUCCESS = """
{
  "type": "tool_result",
  "call_id": "call_abc123",
  "result": {
    "content": "file content here"
  }
}
"""
SUCCESS_OF_THE_WEBSOCKET_PROTOCOL = """
{
  "type": "tool_result",
  "call_id": "call_abc123",
  "result": {
    "content": "// содержимое файла"
  }
}
"""
ERROR_TEXT = """
{
  "type": "tool_result",
  "call_id": "call_abc123",
  "error": "File not found: /src/main.dart"
}
"""
# Agent Protocol, "Tool Execution Error".
ERROR_TEXT_AND_CODE = """
{
  "type": "tool_result",
  "call_id": "call_123",
  "error": "FileNotFoundError: /src/missing.dart",
  "error_code": "FILE_NOT_FOUND"
}
"""
# Tools Specification, in its order.
READ_FILE_RESULT = """
{
  "type": "tool_result",
  "call_id": "call_001",
  "result": {
    "content": "// File content here...",
    "encoding": "utf-8"
  }
}
"""
ERROR_OBJECT = """
{
  "type": "tool_result",
  "call_id": "call_001",
  "error": {
    "code": "FILE_NOT_FOUND",
    "message": "File not found: src/auth.js"
  }
}
"""
WRITE_FILE_RESULT = """
{
  "type": "tool_result",
  "call_id": "call_002",
  "result": {
    "success": true,
    "bytes_written": 48
  }
}
"""
GIT_DIFF_RESULT = r"""
{
  "type": "tool_result",
  "call_id": "call_003",
  "result": {
    "diff": "diff --git a/src/auth.js b/src/auth.js\nindex 1234567..abcdefg 100644\n--- a/src/auth.js\n+++ b/src/auth.js\n@@ -1,5 +1,6 @@\n export function authenticate(user) {\n+  console.log('Authenticating user:', user.id);\n   // ... rest of the function\n }"
  }
}
"""  # noqa: E501
APPLY_PATCH_RESULT = """
{
  "type": "tool_result",
  "call_id": "call_004",
  "result": {
    "success": true,
    "files_modified": ["src/auth.js"]
  }
}
"""
APPLY_PATCH_REVIEW_RESULT = """
{
  "type": "tool_result",
  "call_id": "call_005",
  "result": {
    "filtered_diff": "diff --git... (only selected chunks)",
    "action": "apply",
    "chunks_selected": [1, 3, 4],
    "chunks_total": 5
  }
}
"""
PROMPT_USER_RESULT = """
{
  "type": "tool_result",
  "call_id": "call_006",
  "result": {
    "action": "approve"
  }
}
"""
# Tools Specification, "Примеры использования".
EXAMPLE_RESULT = """
{
  "type": "tool_result",
  "call_id": "call_001",
  "result": {"content": "const config = {...}"}
}
"""

# Agent Protocol and WebSocket Protocol, "HITL Decision": approve and reject are the same in both.
APPROVE = """
{
  "type": "hitl_decision",
  "call_id": "call_xyz789",
  "decision": "approve"
}
"""
EDIT_OF_THE_AGENT_PROTOCOL = """
{
  "type": "hitl_decision",
  "call_id": "call_xyz789",
  "decision": "edit",
  "modified_arguments": {
    "path": "/src/modified.dart",
    "content": "modified content"
  }
}
"""
EDIT_OF_THE_WEBSOCKET_PROTOCOL = r"""
{
  "type": "hitl_decision",
  "call_id": "call_xyz789",
  "decision": "edit",
  "modified_arguments": {
    "path": "/src/config_new.json",
    "content": "{\"debug\": false}"
  }
}
"""
REJECT = """
{
  "type": "hitl_decision",
  "call_id": "call_xyz789",
  "decision": "reject",
  "feedback": "This operation is too risky"
}
"""

# WebSocket Protocol, "User Message".
USER_MESSAGE = """
{
  "type": "user_message",
  "content": "Напиши функцию для сортировки массива",
  "role": "user"
}
"""

# Agent Protocol, "Context Update" and "Управление контекстом".
CONTEXT_UPDATES = {
    "add a file with its content": """
{
  "type": "context_update",
  "session_id": "session_123",
  "action": "add_file",
  "data": {
    "path": "/src/main.dart",
    "content": "file content"
  }
}
""",
    "add a file": """
{
  "type": "context_update",
  "action": "add_file",
  "data": {
    "path": "/src/main.dart"
  }
}
""",
    "remove a file": """
{
  "type": "context_update",
  "action": "remove_file",
  "data": {
    "path": "/src/old_file.dart"
  }
}
""",
    "clear": """
{
  "type": "context_update",
  "action": "clear"
}
""",
}

FOR_A_CALL = {
    "success": SUCCESS,
    "success, WebSocket Protocol": SUCCESS_OF_THE_WEBSOCKET_PROTOCOL,
    "error text": ERROR_TEXT,
    "error text and code": ERROR_TEXT_AND_CODE,
    "read_file": READ_FILE_RESULT,
    "error object": ERROR_OBJECT,
    "write_file": WRITE_FILE_RESULT,
    "git.diff": GIT_DIFF_RESULT,
    "apply_patch": APPLY_PATCH_RESULT,
    "apply_patch_review": APPLY_PATCH_REVIEW_RESULT,
    "prompt_user": PROMPT_USER_RESULT,
    "example": EXAMPLE_RESULT,
    "approve": APPROVE,
    "edit, Agent Protocol": EDIT_OF_THE_AGENT_PROTOCOL,
    "edit, WebSocket Protocol": EDIT_OF_THE_WEBSOCKET_PROTOCOL,
    "reject": REJECT,
}


def for_call(example: str, asked: dict[str, Any]) -> str:
    """The example with the id of the call that the server asked for."""
    return example.replace(json.loads(example)["call_id"], asked["call_id"])


def told(model: ScriptedModel, name: str) -> Any:
    """What the model reads as the result of its only call."""
    (content,) = [m["content"] for m in model.requests[name][-1]["messages"] if m["role"] == "tool"]
    return json.loads(content)


def still_works(session: Ide, model: ScriptedModel) -> None:
    session.say(model.script("still", Says("Still here")))
    session.idle()
    assert session.text().endswith("Still here")


@pytest.mark.parametrize("example", FOR_A_CALL.values(), ids=FOR_A_CALL)
def test_an_example_for_a_call_that_is_not_there_is_refused_by_its_call_id(
    ide: Open, model: ScriptedModel, example: str
) -> None:
    session = ide()
    session.send_raw(example)
    error = session.receive()
    assert (error["type"], error["error_code"]) == ("error", "INVALID_CALL_ID")
    assert error["call_id"] == json.loads(example)["call_id"]
    assert isinstance(error["content"], str)
    still_works(session, model)


@pytest.mark.parametrize("example", CONTEXT_UPDATES.values(), ids=CONTEXT_UPDATES)
def test_a_context_update_is_accepted_in_silence_and_the_connection_works_on(
    ide: Open, model: ScriptedModel, example: str
) -> None:
    session = ide(json.loads(example).get("session_id"))
    session.send_raw(example)
    still_works(session, model)
    assert session.of_type("error") == []


def test_the_example_of_a_user_message_is_answered(ide: Open) -> None:
    session = ide()
    session.send_raw(USER_MESSAGE)
    session.idle()
    assert session.text() == "unscripted"


READ = ("read_file", {"path": "src/auth.js"})
DIFF = "diff --git a/a b/a\n"
NOT_FOUND = {"error": {"code": "FILE_NOT_FOUND", "message": "File not found: src/auth.js"}}

#: Example → the call that it settles → what the model is told.
SETTLED = {
    "success": (READ, {"content": "file content here"}),
    "success, WebSocket Protocol": (READ, {"content": "// содержимое файла"}),
    "error text": (READ, {"error": {"code": "EXECUTION_FAILED", "message": "File not found: /src/main.dart"}}),
    "error text and code": (
        READ,
        {"error": {"code": "FILE_NOT_FOUND", "message": "FileNotFoundError: /src/missing.dart"}},
    ),
    "read_file": (READ, {"content": "// File content here...", "encoding": "utf-8"}),
    "error object": (READ, NOT_FOUND),
    "write_file": (
        ("write_file", {"path": "src/logger.js", "content": "export const log = (msg) => console.log(msg);"}),
        {"success": True, "bytes_written": 48},
    ),
    "git.diff": (("git.diff", {"path": ".", "staged": False}), json.loads(GIT_DIFF_RESULT)["result"]),
    "apply_patch": (("apply_patch", {"diff": DIFF}), {"success": True, "files_modified": ["src/auth.js"]}),
    "apply_patch_review": (
        ("apply_patch_review", {"diff": DIFF, "message": "Review changes to authentication module"}),
        json.loads(APPLY_PATCH_REVIEW_RESULT)["result"],
    ),
    "prompt_user": (
        ("prompt_user", {"message": "Do you want to continue?", "actions": ["approve", "deny", "review"]}),
        {"action": "approve"},
    ),
    "example": (READ, {"content": "const config = {...}"}),
}


@pytest.mark.parametrize("name", SETTLED)
def test_an_example_of_a_result_settles_an_open_call(ide: Open, model: ScriptedModel, name: str) -> None:
    (tool, arguments), seen = SETTLED[name]
    session = ide()
    session.say(model.script(name, Says("", [call(tool, **arguments)]), Says("Seen")))
    asked = session.expect("tool_call")
    assert (asked["tool_name"], asked["arguments"]) == (tool, arguments)
    if asked["requires_approval"]:
        session.decide(asked, "approve")
        asked = session.expect("tool_call", requires_approval=False)
    session.send_raw(for_call(FOR_A_CALL[name], asked))
    session.idle()
    assert session.text() == "Seen"
    assert told(model, name) == seen


# Agent Protocol, "run_command", "Результат (streaming)": the body of a result that is not the last one.
STREAMED = r"""
{
  "result": {
    "stdout": "Running tests...\n",
    "stderr": "",
    "exit_code": null
  }
}
"""


def test_a_streamed_piece_of_output_leaves_the_command_open_until_its_exit_code(
    ide: Open, model: ScriptedModel
) -> None:
    session = ide()
    command = call("run_command", command="flutter test", cwd="project/path")
    session.say(model.script("streamed", Says("", [command]), Says("Ran")))
    session.decide(session.expect("tool_call", requires_approval=True), "approve")
    asked = session.expect("tool_call", requires_approval=False)
    session.send("tool_result", call_id=asked["call_id"], **json.loads(STREAMED))
    final = {"stdout": "Running tests...\nAll passed\n", "stderr": "", "exit_code": 0}
    session.result(asked, final)
    session.idle()
    assert session.of_type("error") == []
    assert len(model.requests["streamed"]) == 2
    assert told(model, "streamed") == final


# WebSocket Protocol, "Tool Call с требованием одобрения"; the path is absolute there and relative for the IDE.
CONFIG = call("write_file", path="/src/config.json", content='{"debug": true}')


def _awaiting(session: Ide, model: ScriptedModel, name: str) -> dict[str, Any]:
    session.say(model.script(name, Says("", [CONFIG]), Says("Done")))
    asked = session.expect("tool_call")
    assert asked["requires_approval"] is True
    assert asked["arguments"] == {"path": "src/config.json", "content": '{"debug": true}'}
    return asked


def test_the_example_of_an_approval_has_the_call_executed(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    asked = _awaiting(session, model, "approve")
    session.send_raw(for_call(APPROVE, asked))
    granted = session.expect("tool_call")
    assert granted["requires_approval"] is False
    assert granted["arguments"] == asked["arguments"]


@pytest.mark.parametrize(
    ("example", "arguments"),
    [
        (EDIT_OF_THE_AGENT_PROTOCOL, {"path": "src/modified.dart", "content": "modified content"}),
        (EDIT_OF_THE_WEBSOCKET_PROTOCOL, {"path": "src/config_new.json", "content": '{"debug": false}'}),
    ],
    ids=["Agent Protocol", "WebSocket Protocol"],
)
def test_the_example_of_an_edit_has_the_changed_call_executed(
    ide: Open, model: ScriptedModel, example: str, arguments: dict[str, str]
) -> None:
    session = ide()
    asked = _awaiting(session, model, "edit")
    session.send_raw(for_call(example, asked))
    granted = session.expect("tool_call")
    assert (granted["call_id"], granted["requires_approval"]) == (asked["call_id"], False)
    assert granted["arguments"] == arguments
    session.result(granted, {"success": True})
    session.idle()
    assert told(model, "edit")["edited_arguments"] == arguments


def test_the_example_of_a_rejection_tells_the_model_the_users_words(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    session.send_raw(for_call(REJECT, _awaiting(session, model, "reject")))
    session.idle()
    assert told(model, "reject") == {"status": "rejected", "feedback": "This operation is too risky"}
    assert session.text() == "Done"


# Tool calls as the server's frames: (tool, arguments as the model gives them, path as the IDE gets it, approval).
# The Agent Protocol shows absolute paths under `arguments`, the Tools Specification relative ones under `args`.
CALLS: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("read_file", {"path": "/src/main.dart"}, {"path": "src/main.dart"}, False),
    (
        "write_file",
        {"path": "/src/new_file.dart", "content": "void main() { print('Hello'); }"},
        {"path": "src/new_file.dart", "content": "void main() { print('Hello'); }"},
        True,
    ),
    ("list_files", {"path": "/src", "recursive": False}, {"path": "src", "recursive": False}, False),
    ("git.diff", {"path": ".", "staged": False}, {"path": ".", "staged": False}, False),
    (
        "run_command",
        {"command": "flutter test", "cwd": "/project/path"},
        {"command": "flutter test", "cwd": "project/path"},
        True,
    ),
    ("read_file", {"path": "src/auth.js"}, {"path": "src/auth.js"}, False),
    (
        "list_files",
        {"path": "src", "recursive": True, "pattern": "*.dart"},
        {"path": "src", "recursive": True, "pattern": "*.dart"},
        False,
    ),
    ("apply_patch", {"diff": "diff --git a/src/auth.js..."}, {"diff": "diff --git a/src/auth.js..."}, True),
    ("run_command", {"command": "npm install", "cwd": "."}, {"command": "npm install", "cwd": "."}, True),
]


@pytest.mark.parametrize("profile", ["", "args"])
@pytest.mark.parametrize(("tool", "given", "got", "approval"), CALLS, ids=[f"{n}-{c[0]}" for n, c in enumerate(CALLS)])
def test_a_call_of_the_documents_reaches_the_ide_with_its_fields(
    ide: Open, model: ScriptedModel, tool: str, given: dict[str, Any], got: dict[str, Any], approval: bool, profile: str
) -> None:
    session = ide(profile=profile)
    session.say(model.script("call", Says("", [call(tool, **given)])))
    frame = session.expect("tool_call")
    assert isinstance(frame["call_id"], str)
    assert (frame["tool_name"], frame["arguments"], frame["requires_approval"]) == (tool, got, approval)
    assert frame.get("args") == (got if profile == "args" else None)
