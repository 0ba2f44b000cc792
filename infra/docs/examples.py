"""Examples of every frame, by sender and type. The documents show them; the tests check them."""

from typing import Any

_CALL = "call_7c1d"
_TURN = "turn_51f0"
_MESSAGE = "msg_9b2e"
_PATH = {"path": "src/main.dart"}
_FILE = {**_PATH, "content": "void main() {}\n"}
_OPEN = {"call_id": _CALL, "tool_name": "write_file", "state": "awaiting_approval", "deadline": 1767225600000}
_PENDING = {
    **_OPEN,
    "turn_id": _TURN,
    "arguments": _FILE,
    "risk": "write",
    "title": "Write src/main.dart",
    "kind": "edit",
    "paths": ["src/main.dart"],
    "remember": {"rule": _FILE["path"], "scopes": ["session", "user"]},
}
_SWITCH = {
    "from_agent": "universal",
    "to_agent": "architect",
    "reason": "The user chose this agent",
    "timestamp": "2026-01-01T00:00:00.000+00:00",
}

_UPLOAD = "1767226500000.1048640.5f2b8c1d9e3a4f6071829304"
_URL = "https://bucket.s3.eu-central-1.amazonaws.com/{}/ann/my_session/{}?X-Amz-Signature=…"

#: One pixel.
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_DEPLOY = {
    "name": "deploy",
    "description": "Deploy the project to a stage.",
    "parameters": {"type": "object", "properties": {"stage": {"enum": ["dev", "prod"]}}, "required": ["stage"]},
    "read_only": False,
}

_CLIENT: dict[str, list[dict[str, Any]]] = {
    "user_message": [
        {"content": "Read main.dart and tell me what it does", "role": "user"},
        {"content": "And now add a test", "client_msg_id": "m-2", "request_id": "r-1"},
        {"content": "Without mocks, please", "client_msg_id": "m-3", "when_busy": "steer"},
        {
            "content": "Why does the button look like this?",
            "attachments": [
                {"type": "image", "name": "button.png", "media_type": "image/png", "data": _PNG},
                {"type": "text", "name": "build.log", "content": "warning: unused import\n"},
            ],
        },
    ],
    "tool_result": [
        {"call_id": _CALL, "result": {"content": "void main() {}\n"}},
        {"call_id": _CALL, "error": "File not found: src/main.dart", "error_code": "FILE_NOT_FOUND"},
        {"call_id": _CALL, "error": {"code": "FILE_NOT_FOUND", "message": "File not found: src/main.dart"}},
        {"call_id": _CALL, "result": {"stdout": "Running tests...\n", "stderr": "", "exit_code": None}, "offset": 0},
        {
            "call_id": _CALL,
            "result": {"stdout": "", "stderr": "1 test failed\n", "exit_code": None},
            "offsets": {"stdout": 17, "stderr": 0},
        },
    ],
    "hitl_decision": [
        {"call_id": _CALL, "decision": "approve"},
        {"call_id": _CALL, "decision": "edit", "modified_arguments": _FILE},
        {"call_id": _CALL, "decision": "reject", "feedback": "Keep that file as it is"},
        {"call_id": _CALL, "decision": "approve", "remember": {"scope": "session", "pattern": "src/**"}},
        {"call_id": _CALL, "decision": "approve", "mode": "autonomous"},
    ],
    "context_update": [
        {"action": "add_file", "data": _FILE},
        {"action": "add_file", "data": {"path": "docs/plan.md"}},
        {"action": "remove_file", "data": _PATH},
        {"action": "clear"},
    ],
    "switch_agent": [{"agent_type": "architect", "content": "Draw up a plan first"}],
    "hello": [
        {"client": {"name": "my-ide", "version": "1.2.0"}, "capabilities": {}},
        {
            "client": {"name": "my-ide", "version": "1.2.0"},
            "platform": "linux",
            "metadata": {"cwd": "/home/ann/sorting", "project": "sorting"},
            "capabilities": {"tools": [_DEPLOY]},
            "instructions": [{"path": "AGENTS.md", "content": "Run `make test` after a change.\n"}],
        },
        {
            "client": {"name": "my-ide", "version": "1.2.0"},
            "capabilities": {"tools_supported": ["read_file", "list_files", "search_in_project"], "drafts": True},
        },
        {
            "client": {"name": "my-ide", "version": "1.2.0"},
            "capabilities": {"tools_supported": ["read_file", "search_in_project", "delegate"]},
            "agents": [
                {
                    "name": "reviewer",
                    "description": "Reviews changes of the sorting code.",
                    "prompt": "Look for comparisons that are not transitive. Quote the line.",
                    "tools": ["read_file", "search_in_project"],
                    "mode": "ask",
                }
            ],
        },
    ],
    "resume": [{"last_seq": 41}],
    "cancel": [{"request_id": "r-2"}, {"turn_id": _TURN}, {"client_msg_id": "m-2"}, {"queued": True}],
    "withdraw": [{"client_msg_id": "m-2"}],
    "compact": [{"request_id": "r-7"}],
    "ping": [{"sent_at": 1767225600000}],
    "session_config": [
        {"mode": "plan", "last_seq": 41},
        {"when_busy": "interrupt", "title": "Sorting"},
        {"model": "gpt-5-mini", "thinking": "high"},
    ],
    "refresh_token": [{"token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"}],
    "upload_request": [{"bytes": 1048640}],
    "rules": [{"action": "list"}, {"action": "revoke", "rule_id": "rule_3a9f"}],
}

_SERVER: dict[str, list[dict[str, Any]]] = {
    "assistant_message": [
        {
            "token": "The file defines ",
            "content": "The file defines ",
            "is_final": False,
            "message_id": _MESSAGE,
            "turn_id": _TURN,
            "agent": "universal",
            "seq": 7,
        },
        {
            "token": "`main` function.",
            "content": "`main` function.",
            "is_final": True,
            "message_id": _MESSAGE,
            "turn_id": _TURN,
            "agent": "universal",
            "seq": 8,
        },
    ],
    "assistant_thought": [
        {
            "content": "The user wants to know what main.dart does, so I read it first. ",
            "message_id": _MESSAGE,
            "turn_id": _TURN,
            "agent": "universal",
            "seq": 6,
        }
    ],
    "subagent_update": [
        {
            "call_id": _CALL,
            "turn_id": _TURN,
            "agent": "explore",
            "task": "Where is the version of the protocol checked?",
            "state": "running",
            "step": 2,
            "text": "The handshake is in src/handshake.dart.",
            "seq": 9,
        },
        {
            "call_id": _CALL,
            "turn_id": _TURN,
            "agent": "explore",
            "task": "Where is the version of the protocol checked?",
            "state": "completed",
            "seq": 14,
        },
    ],
    "tool_call_draft": [
        {
            "message_id": _MESSAGE,
            "turn_id": _TURN,
            "index": 0,
            "tool_name": "write_file",
            "path": "src/logger.js",
            "chars": 51,
            "lines": 3,
            "tail": "export const log = (msg) => {\n  console.log(msg);\n}",
        },
        {"message_id": _MESSAGE, "turn_id": _TURN, "index": 0, "withdrawn": True},
    ],
    "tool_call": [
        {
            "call_id": _CALL,
            "tool_name": "read_file",
            "arguments": _PATH,
            "requires_approval": False,
            "turn_id": _TURN,
            "deadline": 1767225600000,
            "risk": "read",
            "title": "Read src/main.dart",
            "kind": "read",
            "paths": ["src/main.dart"],
            "seq": 3,
        },
        {
            "call_id": _CALL,
            "tool_name": "write_file",
            "arguments": _FILE,
            "requires_approval": True,
            "turn_id": _TURN,
            "deadline": 1767312000000,
            "risk": "write",
            "title": "Write src/main.dart",
            "kind": "edit",
            "paths": ["src/main.dart"],
            "remember": {"rule": _FILE["path"], "scopes": ["session", "user"]},
            "seq": 9,
        },
        {
            "call_id": _CALL,
            "tool_name": "apply_patch",
            "requires_approval": True,
            "turn_id": _TURN,
            "deadline": 1767312000000,
            "risk": "write",
            "title": "Patch src/main.dart, test/main_test.dart",
            "kind": "edit",
            "paths": ["src/main.dart", "test/main_test.dart"],
            "payload_url": "https://bucket.s3.eu-central-1.amazonaws.com/items/9f2c?X-Amz-Signature=…",
            "payload_bytes": 1204311,
            "remember": None,
            "seq": 16,
        },
    ],
    "agent_status": [{"status": "thinking", "message": "Thinking", "seq": 2}],
    "agent_switched": [{"content": "Switched to architect", **_SWITCH, "metadata": _SWITCH, "seq": 12}],
    "mode_switched": [
        {"from_mode": "code", "to_mode": "plan", "seq": 12},
        {"from_mode": "plan", "to_mode": "code", "call_id": _CALL, "seq": 21},
    ],
    "error": [
        {
            "content": "Missing field: content",
            "message": "Missing field: content",
            "error_code": "MISSING_FIELD",
            "details": {"field": "content"},
            "retryable": False,
        },
    ],
    "turn_end": [
        {
            "turn_id": _TURN,
            "reason": "completed",
            "usage": {
                "prompt_tokens": 1830,
                "completion_tokens": 212,
                "cached_tokens": 1024,
                "llm_calls": 2,
                "cost_usd": 0.000763,
                "prompt_details": {
                    "system_tokens": 610,
                    "tools_tokens": 820,
                    "files_tokens": 120,
                    "history_tokens": 390,
                },
            },
            "final_text_sha256": "3b2a7f0c9d1e4a5b8c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3",
            "title": "Sorting",
            "context_used": 1510,
            "seq": 15,
        }
    ],
    "context_updated": [{"action": "add_file", "path": "src/main.dart", "files": 2, "context_size": 614}],
    "rules": [
        {
            "rules": [
                {
                    "rule_id": "rule_3a9f",
                    "scope": "session",
                    "agent": "coder",
                    "tool_name": "write_file",
                    "decision": "allow",
                    "pattern": "src/**",
                    "covers": "src/**",
                    "created_at": 1767225600000,
                }
            ]
        }
    ],
    "plan": [
        {
            "turn_id": _TURN,
            "items": [
                {"text": "Read the parser", "status": "completed"},
                {"text": "Add a test for empty input", "status": "in_progress"},
                {"text": "Fix the bug", "status": "pending"},
            ],
            "seq": 6,
        }
    ],
    "call_update": [
        {"call_id": _CALL, "state": "completed", "seq": 10},
        {"call_id": _CALL, "state": "completed", "result": {"content": "void main() {}"}, "seq": 10},
        {"call_id": _CALL, "state": "rejected", "decision": "reject", "feedback": "Not in this file", "seq": 10},
    ],
    "compacted": [{"outcome": "summarised", "tokens_before": 48200, "tokens_after": 1900, "seq": 12}],
    "tool_progress": [
        {"call_id": _CALL, "offset": 0, "result": {"stdout": "Running tests...\n", "exit_code": None}, "seq": 11}
    ],
    "session_info": [
        {
            "session_id": "my_session",
            "agent": "universal",
            "status": "waiting_approval",
            "title": "Sorting",
            "turn_id": _TURN,
            "last_seq": 41,
            "pending_calls": [_PENDING],
            "queued": [{"client_msg_id": "m-2", "preview": "And now add a test", "at": 1767225600000}],
            "mode": "code",
            "settings": {"when_busy": "interrupt"},
            "agents": [{"name": "coder", "description": "Writes and changes code"}],
            "model": "gpt-5-mini",
            "models": [
                {
                    "name": "gpt-5-mini",
                    "context_tokens": 128000,
                    "images": True,
                    "thinking": ["low", "medium", "high"],
                }
            ],
            "limits": {"user_message_chars": 10000, "inline_frame_bytes": 120000},
            "plan": [{"text": "Add a test for empty input", "status": "in_progress"}],
            "protocol_version": "1.0",
        }
    ],
    "resumed": [{"last_seq": 41, "open_calls": [_OPEN]}],
    "resync_required": [{"last_seq": 9041}],
    "pong": [{"sent_at": 1767225600000}],
    "user_message": [
        {
            "client_msg_id": "m-1",
            "turn_id": _TURN,
            "role": "user",
            "content": "Read main.dart and tell me what it does",
            "seq": 1,
            "at": 1767225600000,
        }
    ],
    "queued": [{"client_msg_id": "m-2", "position": 1, "preview": "And now add a test", "seq": 13}],
    "withdrawn": [{"client_msg_ids": ["m-2"], "seq": 14}],
    "ack": [
        {"request_id": "r-1", "outcome": "queued", "client_msg_id": "m-2"},
        {"request_id": "r-2", "outcome": "cancelling", "turn_id": _TURN},
    ],
    "upload_ticket": [
        {
            "payload_ref": _UPLOAD,
            "url": _URL.format("tickets", _UPLOAD),
            "headers": {"Content-Length": "1048640", "Content-Type": "application/json", "If-None-Match": "*"},
            "expires_at": 1767226500000,
        }
    ],
    "message_discarded": [{"message_id": _MESSAGE, "turn_id": _TURN, "seq": 14}],
}

#: By sender, then by type; the examples omit `type`.
EXAMPLES = {"client": _CLIENT, "server": _SERVER}

#: In place of a frame of any type.
REFERENCED = {"type": "tool_result", "call_id": _CALL, "payload_ref": _UPLOAD}

GATEWAY_ERROR = {
    "message": "Internal server error",
    "connectionId": "L0SM9cOFvHcCIhw=",
    "requestId": "Kc9a8F3FoAMFs1A=",
}
