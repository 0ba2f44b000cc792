"""Frames by reference, one function at a time: what they cost, and what becomes of them when something fails."""

import json
import time
from typing import Any

import boto3
import pytest

from tests.fakes.aws.recorder import INVOKE, POST, READ, READ_MANY, TRANSACTION
from tests.fakes.model.script import call
from tests.functions.system import System
from tests.functions.template import REGION

READ_A = call("read_file", path="a.py")
GET, PUT = "GetObject", "PutObject"


def upload(system: System, connection: str, frame_type: str, **fields: Any) -> str:
    """Put a frame where its ticket's URL leads. Returns its reference."""
    body = json.dumps({"type": frame_type, **fields}).encode()
    system.send_raw(connection, "control", json.dumps({"type": "upload_request", "bytes": len(body)}))
    (ticket,) = system.aws.frames(connection)
    assert ticket["payload_ref"] in ticket["url"]
    key = ticket["url"].split("amazonaws.com/")[1].split("?")[0]
    with system.aws.paused():
        boto3.client("s3", region_name=REGION).put_object(Bucket="payloads", Key=key, Body=body)
    reference: str = ticket["payload_ref"]
    return reference


def test_a_ticket_is_a_signature_and_costs_no_call_but_its_post(system: System) -> None:
    system.connect("c1", user="ann/a b")
    system.send_raw("c1", "control", json.dumps({"type": "upload_request", "bytes": 500}))
    assert system.aws.calls == [POST]
    (ticket,) = system.aws.frames("c1")
    assert ticket["url"].startswith("https://payloads.s3.eu-central-1.amazonaws.com/tickets/ann%252Fa%20b/s1/")
    assert "content-length%3Bcontent-type%3Bhost%3Bif-none-match" in ticket["url"]
    assert 0 < ticket["expires_at"] - time.time() * 1000 <= 900_000


def test_a_small_result_by_reference_is_one_read_of_s3_more(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    reference = upload(connected, "c1", "tool_result", call_id=call_id, result={"content": "x"})
    connected.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert connected.aws.calls == [GET, READ_MANY, TRANSACTION, INVOKE]
    assert json.loads(connected.history()[-1][1]) == {"content": "x"}


def test_a_large_result_is_written_before_the_transaction_that_refers_to_it(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    reference = upload(connected, "c1", "tool_result", call_id=call_id, result={"content": "x" * 500_000})
    connected.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert connected.aws.calls == [GET, READ_MANY, PUT, TRANSACTION, INVOKE]
    outcome = connected.item(f"CALL#{call_id}")["outcome"]
    with connected.aws.paused():
        s3 = boto3.client("s3", region_name=REGION)
        found = s3.get_object(Bucket="payloads", Key=f"items/ann/s1/{outcome['digest']}")["Body"].read()
    assert json.loads(found) == {"result": {"content": "x" * 500_000}}
    assert len(found) == outcome["bytes"]
    connected.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert connected.aws.calls[:2] == [GET, READ_MANY], "a repeat is known by its digest"
    assert TRANSACTION not in connected.aws.calls


def test_an_upload_outlives_a_transaction_that_failed(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    reference = upload(connected, "c1", "tool_result", call_id=call_id, result={"content": "x" * 500_000})
    connected.aws.refuse(TRANSACTION, 400, "AccessDeniedException")
    connected.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    (error,) = connected.aws.frames("c1")
    assert (error["error_code"], error["retryable"]) == ("DATABASE_ERROR", True)
    connected.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert connected.item(f"CALL#{call_id}")["state"] == "completed"


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (404, "NoSuchKey")])
def test_s3_says_of_what_is_not_there_that_it_is_denied_or_that_it_is_not_there(
    connected: System, status: int, code: str
) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    connected.aws.refuse(GET, status, code)
    reference = f"{int(time.time() * 1000) + 60_000}.100.{'a' * 24}"
    connected.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    (error,) = connected.aws.frames("c1")
    assert (error["error_code"], error["retryable"]) == ("INVALID_ARGUMENTS", False)
    assert connected.aws.calls == [GET, POST]


def test_an_object_larger_than_its_ticket_is_not_read(connected: System) -> None:
    reference = upload(connected, "c1", "user_message", content="hello")
    with connected.aws.paused():
        s3 = boto3.client("s3", region_name=REGION)
        s3.put_object(Bucket="payloads", Key=f"tickets/ann/s1/{reference}", Body=b" " * 1_000)
    connected.send("c1", "user_message", payload_ref=reference)
    (error,) = connected.aws.frames("c1")
    assert error["error_code"] == "PAYLOAD_TOO_LARGE"


def test_nothing_is_fetched_for_a_token_that_has_expired_or_a_type_that_is_none(system: System) -> None:
    system.connect("c1", expires=int(time.time()) - 5)
    system.send("c1", "user_message", payload_ref="x")
    (error,) = system.aws.frames("c1")
    assert error["error_code"] == "SESSION_EXPIRED"
    assert GET not in system.aws.calls
    system.send_raw("c1", "unknown_message", json.dumps({"type": "nonsense", "payload_ref": "x"}))
    assert GET not in system.aws.calls


def test_a_pong_repeats_no_more_than_a_frame_holds(connected: System) -> None:
    reference = upload(connected, "c1", "ping", much="x" * 200_000)
    connected.send_raw("c1", "control", json.dumps({"type": "ping", "payload_ref": reference}))
    (error,) = connected.aws.frames("c1")
    assert error["error_code"] == "PAYLOAD_TOO_LARGE"


def test_open_calls_that_do_not_fit_into_one_frame_go_by_payload_urls(extended: System) -> None:
    writes = [call("write_file", path=f"{n}.py", content=str(n) * 20_000) for n in range(3)]
    call_ids = extended.ask("c1", "", *writes)
    extended.send_raw("c1", "control", '{"type": "hello"}')
    assert extended.aws.calls == [READ_MANY, READ_MANY, PUT, POST]
    (info,) = extended.aws.frames("c1")
    shown = {pending["call_id"]: pending for pending in info["pending_calls"]}
    assert shown.keys() == set(call_ids)
    assert [shown[call_id].get("arguments", {}).get("path") for call_id in call_ids] == ["0.py", "1.py", None]
    large = shown[call_ids[2]]
    assert (large["title"], large["risk"], large["kind"]) == ("Write 2.py", "write", "edit")
    key = large["payload_url"].split("amazonaws.com/")[1].split("?")[0]
    with extended.aws.paused():
        found = boto3.client("s3", region_name=REGION).get_object(Bucket="payloads", Key=key)["Body"].read()
    assert json.loads(found) == {"path": "2.py", "content": "2" * 20_000}
    assert large["payload_bytes"] == len(found)


# -- a connection that was closed with 1009 ------------------------------------------------------------------------


def test_a_result_that_closed_its_connection_ends_its_call_and_the_turn_goes_on(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    connected.disconnect("c1", status=1009, reason="message too big")
    assert connected.aws.calls == [READ, READ_MANY, TRANSACTION, INVOKE]
    assert connected.item(f"CALL#{call_id}")["state"] == "failed"
    assert json.loads(connected.history()[-1][1])["error"]["code"] == "PAYLOAD_TOO_LARGE"
    assert connected.connections() == set()
    connected.disconnect("c1", status=1009)
    assert connected.aws.calls == [READ], "it has left already"


def test_a_410_may_come_before_it_and_a_repeat_after_it(connected: System) -> None:
    connected.send("c1", "user_message", content="hello")
    connected.aws.gone.add("c1")
    connected.model.says("", READ_A)
    invoked = connected.aws.invokes[-1]
    connected.run_step()
    assert connected.connections() == set(), "the frames behind the call have found out"
    (call_id,) = connected.item("REGISTER")["calls"]
    connected.disconnect("c1", status=1009)
    assert connected.item(f"CALL#{call_id}")["state"] == "failed"
    assert connected.aws.invokes[-1] != invoked
    connected.model.says("", call("read_file", path="b.py"))
    connected.run_step()
    connected.disconnect("c1", status=1009)
    assert {it["state"] for it in connected.item("REGISTER")["calls"].values()} == {"executing"}
    connected.connect("c2")
    connected.send("c2", "user_message", content="I am back")
    assert [frame["arguments"] for frame in connected.aws.frames("c2")] == [{"path": "b.py"}]


def test_of_several_calls_none_is_blamed(connected: System) -> None:
    connected.ask("c1", "", READ_A, call("read_file", path="b.py"))
    connected.disconnect("c1", status=1009)
    assert {it["state"] for it in connected.item("REGISTER")["calls"].values()} == {"executing"}


def test_what_awaits_approval_and_what_another_window_executes_is_left_alone(connected: System) -> None:
    connected.connect("c2")
    read, write = connected.ask("c1", "", READ_A, call("write_file", path="a.py", content="1"))
    connected.disconnect("c2", status=1009)
    states = {call_id: it["state"] for call_id, it in connected.item("REGISTER")["calls"].items()}
    assert states == {read: "executing", write: "awaiting_approval"}
    connected.disconnect("c1", status=1009)
    states = {call_id: it["state"] for call_id, it in connected.item("REGISTER")["calls"].items()}
    assert states == {read: "failed", write: "awaiting_approval"}
