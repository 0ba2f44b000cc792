"""Messages over HTTP: accepted here, answered on the WebSocket and in the history."""

import threading

import httpx

from tests.conftest import Open
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.rest.test_sessions import refused


def test_sending_a_message_matches_the_seed_document(api: httpx.Client, session: str) -> None:
    body = {"session_id": session, "message": "Создай файл main.dart", "role": "user"}
    answer = api.post("/chat/message", json=body)
    assert answer.status_code == 202
    assert answer.json()["status"] == "processing"
    assert answer.json()["message_id"].startswith("msg_")


def test_a_turn_started_over_http_reaches_the_websocket(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    marker = model.script("rest tool", Says("Reading", [call("read_file", path="main.dart")]), Says("Done"))
    window = ide(session)
    api.post("/chat/message", json={"session_id": session, "message": marker})
    window.result(window.expect("tool_call"), {"content": "void main() {}"})
    assert window.idle() == "ReadingDone"


def test_a_connection_opened_after_the_message_executes_its_calls(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    is_open = threading.Event()
    marker = model.script("rest late", Says("Reading", [call("read_file", path="a")], until=is_open), Says("Done"))
    api.post("/chat/message", json={"session_id": session, "message": marker})
    window = ide(session)
    is_open.set()
    window.result(window.expect("tool_call"), {"content": ""})
    assert window.idle() == "ReadingDone"


def test_a_repeated_message_is_accepted_once(api: httpx.Client, session: str) -> None:
    for send in ({"json": {"client_msg_id": "m1"}}, {"headers": {"Idempotency-Key": "m2"}}):
        body = {"session_id": session, "message": "hello", **send.get("json", {})}
        first, second = (api.post("/chat/message", json=body, headers=send.get("headers")) for _ in range(2))
        assert first.json()["message_id"] == second.json()["message_id"]
        assert (first.status_code, second.status_code) == (202, 202)


def test_a_too_long_message_is_refused(api: httpx.Client, session: str) -> None:
    answer = api.post("/chat/message", json={"session_id": session, "message": "x" * 10_001})
    assert refused(answer, 422, "INVALID_ARGUMENTS")["field"] == "message"


def test_a_repeated_message_gets_the_first_answer(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    body = {"session_id": session, "message": model.script("rest again", Says("Once")), "client_msg_id": "again"}
    window = ide(session)
    first = api.post("/chat/message", json=body).json()
    window.idle()
    assert api.post("/chat/message", json=body).json()["last_seq"] == first["last_seq"]
