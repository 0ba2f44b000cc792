"""Frames by reference, one function at a time: what they cost, and what becomes of them when something fails."""

import json
import time
from typing import Any

import boto3
import pytest

from tests.functions.recorder import INVOKE, POST, READ, READ_MANY, TRANSACTION
from tests.functions.system import System
from tests.functions.template import REGION
from tests.scripted_model import call

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


def test_a_small_result_by_reference_is_one_read_of_s3_more(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    reference = upload(system, "c1", "tool_result", call_id=call_id, result={"content": "x"})
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert system.aws.calls == [GET, READ_MANY, TRANSACTION, INVOKE]
    assert json.loads(system.history()[-1][1]) == {"content": "x"}


def test_a_large_result_is_written_before_the_transaction_that_refers_to_it(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    reference = upload(system, "c1", "tool_result", call_id=call_id, result={"content": "x" * 500_000})
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert system.aws.calls == [GET, READ_MANY, PUT, TRANSACTION, INVOKE]
    outcome = system.item(f"CALL#{call_id}")["outcome"]
    with system.aws.paused():
        s3 = boto3.client("s3", region_name=REGION)
        found = s3.get_object(Bucket="payloads", Key=f"items/ann/s1/{outcome['digest']}")["Body"].read()
    assert json.loads(found) == {"result": {"content": "x" * 500_000}}
    assert len(found) == outcome["bytes"]
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert system.aws.calls[:2] == [GET, READ_MANY], "a repeat is known by its digest"
    assert TRANSACTION not in system.aws.calls


def test_an_upload_outlives_a_transaction_that_failed(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    reference = upload(system, "c1", "tool_result", call_id=call_id, result={"content": "x" * 500_000})
    system.aws.refuse(TRANSACTION, 400, "AccessDeniedException")
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    (error,) = system.aws.frames("c1")
    assert (error["error_code"], error["retryable"]) == ("DATABASE_ERROR", True)
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    assert system.item(f"CALL#{call_id}")["state"] == "completed"


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (404, "NoSuchKey")])
def test_s3_says_of_what_is_not_there_that_it_is_denied_or_that_it_is_not_there(
    system: System, status: int, code: str
) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    system.aws.refuse(GET, status, code)
    reference = f"{int(time.time() * 1000) + 60_000}.100.{'a' * 24}"
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    (error,) = system.aws.frames("c1")
    assert (error["error_code"], error["retryable"]) == ("INVALID_ARGUMENTS", False)
    assert system.aws.calls == [GET, POST]


def test_an_object_larger_than_its_ticket_is_not_read(system: System) -> None:
    system.connect("c1")
    reference = upload(system, "c1", "user_message", content="hello")
    with system.aws.paused():
        s3 = boto3.client("s3", region_name=REGION)
        s3.put_object(Bucket="payloads", Key=f"tickets/ann/s1/{reference}", Body=b" " * 1_000)
    system.send("c1", "user_message", payload_ref=reference)
    (error,) = system.aws.frames("c1")
    assert error["error_code"] == "PAYLOAD_TOO_LARGE"


def test_nothing_is_fetched_for_a_token_that_has_expired_or_a_type_that_is_none(system: System) -> None:
    system.connect("c1", expires=int(time.time()) - 5)
    system.send("c1", "user_message", payload_ref="x")
    (error,) = system.aws.frames("c1")
    assert error["error_code"] == "SESSION_EXPIRED"
    assert GET not in system.aws.calls
    system.send_raw("c1", "unknown_message", json.dumps({"type": "nonsense", "payload_ref": "x"}))
    assert GET not in system.aws.calls


def test_a_pong_repeats_no_more_than_a_frame_holds(system: System) -> None:
    system.connect("c1")
    reference = upload(system, "c1", "ping", much="x" * 200_000)
    system.send_raw("c1", "control", json.dumps({"type": "ping", "payload_ref": reference}))
    (error,) = system.aws.frames("c1")
    assert error["error_code"] == "PAYLOAD_TOO_LARGE"


# -- a connection that was closed with 1009 ------------------------------------------------------------------------


def test_a_result_that_closed_its_connection_ends_its_call_and_the_turn_goes_on(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    system.disconnect("c1", status=1009, reason="message too big")
    assert system.aws.calls == [READ, READ_MANY, TRANSACTION, INVOKE]
    assert system.item(f"CALL#{call_id}")["state"] == "failed"
    assert json.loads(system.history()[-1][1])["error"]["code"] == "PAYLOAD_TOO_LARGE"
    assert system.connections() == set()
    system.disconnect("c1", status=1009)
    assert system.aws.calls == [READ], "it has left already"


def test_a_410_may_come_before_it_and_a_repeat_after_it(system: System) -> None:
    system.connect("c1")
    system.send("c1", "user_message", content="hello")
    system.aws.gone.add("c1")
    system.model.says("", READ_A)
    invoked = system.aws.invokes[-1]
    system.run_step()
    assert system.connections() == set(), "the frames behind the call have found out"
    (call_id,) = system.item("REGISTER")["calls"]
    system.disconnect("c1", status=1009)
    assert system.item(f"CALL#{call_id}")["state"] == "failed"
    assert system.aws.invokes[-1] != invoked
    system.model.says("", call("read_file", path="b.py"))
    system.run_step()
    system.disconnect("c1", status=1009)
    assert {it["state"] for it in system.item("REGISTER")["calls"].values()} == {"executing"}
    system.connect("c2")
    system.send("c2", "user_message", content="I am back")
    assert [frame["arguments"] for frame in system.aws.frames("c2")] == [{"path": "b.py"}]


def test_of_several_calls_none_is_blamed(system: System) -> None:
    system.connect("c1")
    system.ask("c1", "", READ_A, call("read_file", path="b.py"))
    system.disconnect("c1", status=1009)
    assert {it["state"] for it in system.item("REGISTER")["calls"].values()} == {"executing"}


def test_what_awaits_approval_and_what_another_window_executes_is_left_alone(system: System) -> None:
    system.connect("c1")
    system.connect("c2")
    read, write = system.ask("c1", "", READ_A, call("write_file", path="a.py", content="1"))
    system.disconnect("c2", status=1009)
    states = {call_id: it["state"] for call_id, it in system.item("REGISTER")["calls"].items()}
    assert states == {read: "executing", write: "awaiting_approval"}
    system.disconnect("c1", status=1009)
    states = {call_id: it["state"] for call_id, it in system.item("REGISTER")["calls"].items()}
    assert states == {read: "failed", write: "awaiting_approval"}
