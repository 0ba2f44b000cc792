"""Tools executed in the connected IDE over HTTP."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.conftest import Open
from tests.rest.test_sessions import refused
from tests.waiting import until


def read(session: str, call_id: str = "call_456", **fields: Any) -> dict[str, Any]:
    """The seed document's request."""
    call = {"session_id": session, "call_id": call_id, "tool_name": "read_file"}
    return {**call, "arguments": {"path": "/src/main.dart"}, **fields}


def write(session: str, call_id: str) -> dict[str, Any]:
    return read(session, call_id, tool_name="write_file", arguments={"path": "a.dart", "content": "1"})


def execute(api: httpx.Client, body: dict[str, Any], wait: float = 20) -> httpx.Response:
    return api.post("/tools/execute", json=body, params={"wait": wait})


def settled(api: httpx.Client, session: str, call_id: str = "call_456") -> None:
    """Wait for the IDE's result."""
    path, query = f"/tools/calls/{call_id}", {"session_id": session}
    until(lambda: not api.get(path, params=query).json()["status"].startswith("pending"))


def test_executing_a_tool_matches_the_seed_document(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    window.send("ping")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(execute, api, read(session))
        frame = window.expect("tool_call", call_id="call_456")
        shown = {"tool_name": "read_file", "arguments": {"path": "src/main.dart"}, "requires_approval": False}
        assert frame.items() >= shown.items()
        window.result(frame, {"content": "void main() {}"})
        assert answer.result().status_code == 200
        completed = {"call_id": "call_456", "status": "completed", "result": {"content": "void main() {}"}}
        assert answer.result().json() == completed
    assert api.get(f"/sessions/{session}").json()["messages"] == 0, "it enters no history"


def test_dangerous_calls_wait_for_a_human(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    answer = execute(api, write(session, "call_w"), wait=0)
    assert (answer.status_code, answer.json()) == (202, {"call_id": "call_w", "status": "pending_approval"})
    pending = api.get(f"/sessions/{session}/pending-approvals").json()["pending_approvals"]
    assert [call["call_id"] for call in pending] == ["call_w"]
    window.decide(window.expect("tool_call", requires_approval=True), "approve")
    window.result(window.expect("tool_call", requires_approval=False), {"success": True})
    settled(api, session, "call_w")
    assert execute(api, write(session, "call_w")).json()["status"] == "completed"


def test_a_rejected_call_is_reported(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    execute(api, write(session, "call_n"), wait=0)
    window.decide(window.expect("tool_call"), "reject", feedback="not now")
    settled(api, session, "call_n")
    answer = execute(api, write(session, "call_n"))
    assert (answer.status_code, answer.json()["status"]) == (200, "rejected")
    assert answer.json()["result"]["feedback"] == "not now"


def test_a_pending_result_can_be_polled(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    answer = execute(api, read(session), wait=0)
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    path, query = "/tools/calls/call_456", {"session_id": session}
    assert api.get(path, params=query).json() == {"call_id": "call_456", "status": "pending"}
    window.result(window.expect("tool_call"), {"content": "x"})
    settled(api, session)
    assert execute(api, read(session)).json()["result"] == {"content": "x"}, "the same request again"
    assert api.get(path, params=query).json()["result"] == {"content": "x"}
    assert len(window.of_type("tool_call")) == 1


def test_a_null_result_is_returned(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    execute(api, read(session), wait=0)
    window.result(window.expect("tool_call"), None)
    settled(api, session)
    assert execute(api, read(session)).json() == {"call_id": "call_456", "status": "completed", "result": None}


def test_a_failed_tool_is_tool_execution_failed(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    execute(api, read(session), wait=0)
    window.fail(window.expect("tool_call"), {"code": "FILE_NOT_FOUND", "message": "no such file"})
    settled(api, session)
    answer = execute(api, read(session))
    details = refused(answer, 500, "TOOL_EXECUTION_FAILED")
    assert details == {"call_id": "call_456", "reason": "FILE_NOT_FOUND", "status": "failed"}
    assert answer.json()["error"]["message"] == "no such file"
    shown = api.get("/tools/calls/call_456", params={"session_id": session})
    assert (shown.status_code, shown.json()["status"]) == (200, "failed")
    assert shown.json()["error"] == {"code": "FILE_NOT_FOUND", "message": "no such file"}


def test_a_call_without_an_ide_fails(api: httpx.Client, session: str) -> None:
    assert refused(execute(api, read(session)), 500, "TOOL_EXECUTION_FAILED")["reason"] == "no_ide"


def test_an_unknown_tool_is_invalid_tool(api: httpx.Client, session: str, ide: Open) -> None:
    ide(session)
    refused(execute(api, read(session, tool_name="no_such_tool")), 400, "INVALID_TOOL")


def test_invalid_arguments_are_refused(api: httpx.Client, session: str, ide: Open) -> None:
    ide(session)
    refused(execute(api, read(session, arguments={"path": 5})), 422, "INVALID_ARGUMENTS")
    refused(execute(api, read(session, arguments={"path": "../secret"})), 422, "PATH_OUTSIDE_WORKSPACE")


def test_a_used_call_id_is_refused(api: httpx.Client, session: str, ide: Open) -> None:
    ide(session)
    execute(api, read(session), wait=0)
    answer = execute(api, read(session, arguments={"path": "other"}), wait=0)
    assert refused(answer, 422, "INVALID_ARGUMENTS") == {"field": "call_id"}


def test_too_many_open_calls_are_refused(api: httpx.Client, session: str, ide: Open) -> None:
    ide(session)
    for n in range(16):
        assert execute(api, read(session, f"call_{n}"), wait=0).status_code == 202
    refused(execute(api, read(session, "call_16"), wait=0), 429, "RATE_LIMITED")


def test_an_unknown_call_is_not_found(api: httpx.Client, session: str) -> None:
    refused(api.get("/tools/calls/call_1", params={"session_id": session}), 404, "INVALID_CALL_ID")


def test_a_large_result_is_complete(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session)
    execute(api, read(session), wait=0)
    window.expect("tool_call")
    text = json.dumps({"type": "tool_result", "call_id": "call_456", "result": {"content": "x" * 100_000}})
    window.socket.send(text[start : start + 30_000] for start in range(0, len(text), 30_000))
    settled(api, session)
    assert execute(api, read(session)).json()["result"]["content"] == "x" * 100_000


def test_two_identical_requests_make_one_call(api: httpx.Client, session: str, ide: Open) -> None:
    """One request waits for the call; the others learn at once that it is pending."""
    window = ide(session)
    with ThreadPoolExecutor() as pool:
        requests = [pool.submit(execute, api, read(session)) for _ in range(4)]
        until(lambda: sum(request.done() for request in requests) == 3)
        window.result(window.expect("tool_call"), {"content": "x"})
        answers = sorted((request.result() for request in requests), key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [200, 202, 202, 202]
    assert answers[0].json()["result"] == {"content": "x"}
    assert len(window.of_type("tool_call")) == 1
