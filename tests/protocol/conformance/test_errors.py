"""Every error code, provoked everywhere it can occur according to `FACTS`."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codelab.protocol import limits
from codelab.protocol.errors import FACTS, ErrorCode, Where

from tests.fakes.ide.dialects import Client
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.protocol.conformance.conftest import Connect
from tests.protocol.conformance.test_frames import told

ROOT = Path(__file__).parents[3]

REFRESHED = "tests/conversations/test_identity.py::test_an_expired_connection_is_refused_until_it_is_refreshed"

#: Codes that need more than a client and a model, with the test that provokes them.
ELSEWHERE = {
    (ErrorCode.UNAUTHORIZED, Where.REPLY): REFRESHED,
    (ErrorCode.SESSION_EXPIRED, Where.REPLY): REFRESHED,
    (ErrorCode.SESSION_NOT_FOUND, Where.REPLY): "tests/functions/test_user_message.py::"
    "test_nobody_speaks_in_a_session_that_is_not_there",
    (ErrorCode.RATE_LIMITED, Where.TURN): "tests/functions/test_quotas.py::"
    "test_a_turn_ends_between_two_steps_when_the_days_tokens_are_used_up",
    (ErrorCode.DATABASE_ERROR, Where.REPLY): "tests/functions/test_user_message.py::"
    "test_when_storage_fails_the_sender_is_told_to_try_again_and_can",
    (ErrorCode.AGENT_ERROR, Where.REPLY): "tests/functions/test_user_message.py::"
    "test_a_fault_of_the_servers_own_is_answered_too",
    (ErrorCode.FILE_TOO_LARGE, Where.REPLY): "tests/turns/test_files.py::"
    "test_files_are_bounded_in_size_number_and_together",
}


# ---------------------------------------------------------------- refused frames


def body(text: str) -> Callable[[Client], None]:
    return lambda client: client.send_raw(text)


def frame(frame_type: str, **fields: Any) -> Callable[[Client], None]:
    return lambda client: client.send_wrong(frame_type, **fields)


def context_file(path: str) -> Callable[[Client], None]:
    return frame("context_update", action="add_file", data={"path": path})


def too_many_files(client: Client) -> None:
    for n in range(limits.CONTEXT_FILES):
        client.request("context_update", action="add_file", data={"path": f"src/{n}.py"})
    client.send("context_update", action="add_file", data={"path": "one_more.py"})


#: Code → what is sent → the field that the error names.
REFUSED: dict[ErrorCode, tuple[Callable[[Client], None], str | None]] = {
    ErrorCode.INVALID_FORMAT: (body("{"), None),
    ErrorCode.INVALID_TYPE: (frame("nonsense"), "type"),
    ErrorCode.MISSING_FIELD: (frame("user_message"), "content"),
    ErrorCode.INVALID_ARGUMENTS: (frame("user_message", content=5), "content"),
    ErrorCode.INVALID_CALL_ID: (frame("tool_result", call_id="call_nobody", result={}), None),
    ErrorCode.INVALID_PATH: (context_file("a\0b"), "data.path"),
    ErrorCode.PATH_OUTSIDE_WORKSPACE: (context_file("../secret"), "data.path"),
    ErrorCode.CONTEXT_TOO_LARGE: (too_many_files, "data"),
    ErrorCode.PAYLOAD_TOO_LARGE: (frame("upload_request", bytes=limits.PAYLOAD_BYTES + 1), "bytes"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refused_frame_does_not_affect_the_next(connect: Connect, code: ErrorCode) -> None:
    provoke, field = REFUSED[code]
    client = connect(extensions=1)
    provoke(client)
    error = client.expect("error")
    assert (error["error_code"], error["details"].get("field")) == (code.value, field)
    assert error["content"] == error["message"] != ""
    assert error["retryable"] is FACTS[code].retryable
    assert "seq" not in error
    client.send("ping", n=1)
    client.expect("pong", n=1)


def test_a_busy_session_with_reject_refuses_messages(connect: Connect, scripted: ScriptedModel) -> None:
    client = connect(extensions=1)
    # Its answer is awaited because frames are processed in parallel: the message could overtake it.
    client.request("session_config", when_busy="reject")
    refused = threading.Event()
    client.say(scripted.script("slow", Says("At last", until=refused)))
    client.expect("agent_status", status="thinking")
    client.say("Me too", client_msg_id="m2")
    error = client.expect("error")
    assert (error["error_code"], error["retryable"]) == ("BUSY", True)
    assert error["details"]["client_msg_id"] == "m2"
    refused.set()
    assert client.idle() == "At last"


def test_a_viewer_cannot_execute(connect: Connect, scripted: ScriptedModel, session: str) -> None:
    client, viewer = connect(session), connect(session, viewer=1, extensions=1)
    asked = client.call_for(scripted.script("viewed", Says("", [call("read_file", path="a")]), Says("Read")))
    viewer.result(viewer.expect("tool_call"), {"content": "forged"})
    error = viewer.expect("error")
    assert (error["error_code"], error["call_id"]) == ("PERMISSION_DENIED", asked["call_id"])
    client.result(asked, {"content": "real"})
    client.idle()
    assert told(scripted, "viewed") == {"content": "real"}


def test_the_oldest_of_too_many_connections_gets_an_error(connect: Connect, session: str) -> None:
    first = connect(session)
    for _ in range(limits.CONNECTIONS_PER_SESSION):
        connect(session)
    error = first.expect("error")
    assert (error["error_code"], error["retryable"]) == ("RATE_LIMITED", False)


# ---------------------------------------------------------------- failed turns


BAD_CALL = call("read_file", path="../secret")
FAILING: dict[ErrorCode, Callable[[ScriptedModel], str]] = {
    ErrorCode.LLM_ERROR: lambda model: model.script("refused", Says(status=400)),
    ErrorCode.AGENT_ERROR: lambda model: model.script("hopeless", *[Says("", [BAD_CALL])] * 10),
    ErrorCode.CONTEXT_TOO_LARGE: lambda model: "漢字" * 50_000,
}


@pytest.mark.parametrize("code", FAILING)
def test_a_session_continues_after_a_failed_turn(connect: Connect, scripted: ScriptedModel, code: ErrorCode) -> None:
    client = connect(extensions=1)
    content = FAILING[code](scripted)
    if len(content) < limits.USER_MESSAGE_CHARS:
        client.say(content)
    else:
        client.send("user_message", payload_ref=client.upload("user_message", content=content))
    error = client.expect("error")
    assert error["error_code"] == code.value
    assert error["seq"] > 0
    client.idle()
    assert client.ask(scripted.script("afterwards", Says("Still here"))).endswith("Still here")


# ---------------------------------------------------------------- results


#: The IDE's errors.
IDE_SAYS = [
    ErrorCode.INVALID_ARGUMENTS,
    ErrorCode.PERMISSION_DENIED,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.TOOL_NOT_FOUND,
    ErrorCode.EXECUTION_FAILED,
    ErrorCode.TIMEOUT,
    ErrorCode.CANCELLED,
    ErrorCode.FILE_NOT_FOUND,
    ErrorCode.FILE_TOO_LARGE,
    ErrorCode.INVALID_PATH,
    ErrorCode.PATH_OUTSIDE_WORKSPACE,
    ErrorCode.ENCODING_ERROR,
    ErrorCode.GIT_NOT_INITIALIZED,
    ErrorCode.GIT_ERROR,
    ErrorCode.PATCH_APPLY_FAILED,
]


@pytest.mark.parametrize("code", IDE_SAYS)
def test_the_model_gets_the_code_of_a_tool_error(
    connect_in_dialect: Connect, scripted: ScriptedModel, code: ErrorCode
) -> None:
    client, error = connect_in_dialect(), {"code": code.value, "message": "It did not work"}
    client.fail(
        client.call_for(scripted.script("failed", Says("", [call("read_file", path="a")]), Says("I see"))), error
    )
    client.idle()
    assert told(scripted, "failed") == {"error": error}


#: Errors found by the server before it sends the call.
UNSENT = {
    ErrorCode.PATH_OUTSIDE_WORKSPACE: call("read_file", path="../secret"),
    ErrorCode.INVALID_PATH: call("read_file", path="a" * 256),
    ErrorCode.FILE_TOO_LARGE: call("write_file", path="a", content="x" * (limits.FILE_BYTES + 1)),
    ErrorCode.PERMISSION_DENIED: call("write_file", path="src/main.py", content=""),
    ErrorCode.INVALID_CALL_ID: call("read_result", call_id="call_of_nobody"),
}


@pytest.mark.parametrize("code", UNSENT)
def test_invalid_calls_return_to_the_model_unseen_by_clients(
    connect: Connect, scripted: ScriptedModel, code: ErrorCode
) -> None:
    client = connect(extensions=1)
    if code is ErrorCode.PERMISSION_DENIED:
        # Its answer is awaited because frames are processed in parallel: the message could overtake it.
        client.request("switch_agent", agent_type="architect")
    else:
        client.send("switch_agent", agent_type="universal")
    assert client.ask(scripted.script("bad", Says("", [UNSENT[code]], piece=100_000), Says("Sorry"))) == "Sorry"
    assert client.of_type("tool_call") == []
    assert told(scripted, "bad")["error"]["code"] == code.value


def test_the_model_learns_that_a_call_was_cancelled(connect: Connect, scripted: ScriptedModel) -> None:
    client = connect(extensions=1)
    client.call_for(scripted.script("stopped", Says("", [call("read_file", path="a")])))
    client.send("cancel")
    client.idle()
    client.ask(scripted.script("next", Says("Yes?")))
    assert told(scripted, "next")["error"]["code"] == "CANCELLED"


# ---------------------------------------------------------------- completeness


def test_every_code_is_tested_everywhere_it_can_occur() -> None:
    here = {(code, Where.REPLY) for code in REFUSED}
    here |= {(code, Where.REPLY) for code in (ErrorCode.BUSY, ErrorCode.PERMISSION_DENIED, ErrorCode.RATE_LIMITED)}
    here |= {(code, Where.TURN) for code in FAILING} | {(code, Where.CALL) for code in (*IDE_SAYS, *UNSENT)}
    met = {(code, where) for code, facts in FACTS.items() for where in facts.places if where is not Where.REST}
    assert met == here | set(ELSEWHERE)
    for test in ELSEWHERE.values():
        path, name = test.split("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), test
