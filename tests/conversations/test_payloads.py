"""Content that exceeds a WebSocket message, in both directions, on the system as `make run` starts it."""

import contextlib
import json
import time
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.conftest import Open
from tests.fakes.ide.ide import Ide, fetched, once, put, text_of
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.fakes.model.told_results import told_results

TEXT = "".join(f"line {n} of a long file, with a tab\tand some ünïcode\n" for n in range(20_000))[:950_000]
READ = call("read_file", path="big.txt")
DONE = Says("Done")


def reading(ide: Ide, model: ScriptedModel, name: str, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Begin a turn with these calls, which wait for their results."""
    ide.say(model.script(name, Says("", list(calls) or [READ]), DONE))
    return [ide.expect("tool_call") for _ in calls or [READ]]


def upload_result(ide: Ide, call_id: str, **result: str) -> str:
    """Send a result by reference. Returns the reference."""
    reference = ide.upload("tool_result", call_id=call_id, result=result)
    ide.send("tool_result", call_id=call_id, payload_ref=reference)
    return reference


def shown(model: ScriptedModel, name: str) -> str:
    """The last call's result in the last request to the model."""
    found: str = told_results(model.requests[name][-1]["messages"])[-1]
    return found


# -- to the server --------------------------------------------------------------------------------------------------


def test_the_model_sees_the_beginning_and_the_end_of_a_large_result(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    (read,) = reading(one, model, "read")
    upload_result(one, read["call_id"], content=TEXT)
    assert one.idle() == "Done"
    content = shown(model, "read")
    assert "line 0 of" in content
    assert content.endswith(json.dumps({"content": TEXT[-200:]}, ensure_ascii=False)[13:])
    assert f"call_id {read['call_id']}" in content
    assert len(content) < 40_000 < len(TEXT)


def test_a_diff_of_five_megabytes_is_accepted(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    (diff,) = reading(one, model, "diff", call("git.diff", path="."))
    patch = "--- a/big.txt\n+++ b/big.txt\n" + "+a line that was added\n" * 215_000
    assert 4_900_000 < len(patch) < 5_000_000
    upload_result(one, diff["call_id"], diff=patch)
    one.idle()
    assert "a line that was added" in shown(model, "diff")


def test_a_decision_may_be_large_too(ide: Open, model: ScriptedModel) -> None:
    one = ide(extensions=True)
    (write,) = reading(one, model, "edit", call("write_file", path="a.txt", content="short"))
    edit = {"path": "b.txt", "content": TEXT}
    reference = one.upload("hitl_decision", call_id=write["call_id"], decision="edit", modified_arguments=edit)
    one.send("hitl_decision", call_id=write["call_id"], payload_ref=reference)
    granted = one.expect("tool_call", requires_approval=False)
    assert fetched(granted) == edit
    one.result(granted, {"success": True})
    one.idle()
    assert "b.txt" in shown(model, "edit")


def test_a_message_that_is_referenced_twice_is_answered_once(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    reference = one.upload("user_message", content=model.script("named", Says("Hello")))
    for _ in range(2):
        one.send("user_message", payload_ref=reference)
        one.idle() if not one.text() else None
    one.ask(model.script("after", Says(" and again")))
    assert text_of(once(one.frames)) == "Hello and again"


def test_the_agent_can_read_more_of_a_large_result(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    (read,) = reading(one, model, "on")
    read_more = call("read_result", call_id=read["call_id"], offset=500_000, limit=100)
    model.script("on", Says("", [READ]), Says("", [read_more]), DONE)
    upload_result(one, read["call_id"], content=TEXT)
    one.idle()
    whole = json.dumps({"content": TEXT}, ensure_ascii=False, separators=(",", ":"))
    assert shown(model, "on") == whole[500_000:500_100] + f"\n[characters 500000 to 500100 of {len(whole)}]"
    assert len(one.of_type("tool_call")) == 1


# -- to the client --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["", "args"])
def test_a_megabyte_is_written_through_a_reference(ide: Open, model: ScriptedModel, profile: Any) -> None:
    one = ide(extensions=True, profile=profile)
    arguments = {"path": "big.txt", "content": TEXT}
    answers = Says("Writing", [call("write_file", **arguments)], piece=50_000), Says("Written")
    asking = one.call_for(model.script("write", *answers))
    assert not {"arguments", "args"} & asking.keys()
    assert fetched(asking) == arguments
    one.decide(asking, "approve")
    granted = one.expect("tool_call", requires_approval=False)
    assert fetched(granted) == arguments
    one.result(granted, {"success": True})
    assert one.idle() == "WritingWritten"
    (_, asked) = model.requests["write"]
    assert len(json.dumps(asked)) < 100_000, "the model got all of it again"


def test_a_client_that_reconnects_gets_a_working_url(ide: Open, model: ScriptedModel) -> None:
    one = ide("payload-again", extensions=True)
    arguments = {"path": "big.txt", "content": TEXT}
    asking = one.call_for(model.script("again", Says("", [call("write_file", **arguments)], piece=50_000), DONE))
    one.socket.close()
    two = ide("payload-again", extensions=True)
    two.send("resume", last_seq=0)
    assert fetched(two.expect("tool_call", call_id=asking["call_id"])) == arguments


def test_mirrored_arguments_that_exceed_a_frame_go_by_reference(ide: Open, model: ScriptedModel) -> None:
    arguments = {"path": "a.txt", "content": "x" * 90_000}
    script = model.script("fits", Says("", [call("write_file", **arguments)], piece=50_000), DONE)
    one = ide("payload-fits", extensions=True)
    two = ide("payload-fits", extensions=True, profile="args", viewer=1)
    assert one.call_for(script)["arguments"] == arguments
    assert fetched(two.expect("tool_call")) == arguments


def test_an_ide_in_a_browser_may_use_the_urls(ide: Open) -> None:
    ticket = ide().ticket(10)
    origin = {"Origin": "http://localhost:3000"}
    asking = {**origin, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "if-none-match"}
    allowed = httpx.options(ticket["url"], headers=asking, timeout=60)
    assert allowed.status_code == 204
    assert "PUT" in allowed.headers["Access-Control-Allow-Methods"]
    assert "if-none-match" in allowed.headers["Access-Control-Allow-Headers"]
    answer = httpx.put(ticket["url"], content=b"x" * 10, headers={**ticket["headers"], **origin}, timeout=60)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, origin["Origin"])


# -- refusals ------------------------------------------------------------------------------------------------------


def refusal(ide: Ide, call_id: str, reference: Any) -> dict[str, Any]:
    """The error for a result with this reference."""
    ide.send_wrong("tool_result", call_id=call_id, payload_ref=reference)
    return ide.expect("error")


def test_another_sessions_reference_is_refused_like_a_missing_one(ide: Open, model: ScriptedModel) -> None:
    one, two = ide(), ide()
    (read,) = reading(one, model, "refused")
    foreign = two.upload("tool_result", call_id=read["call_id"], result={"content": "from elsewhere"})
    end = int(time.time() * 1000) + 600_000
    for reference in (foreign, f"{end}.100.{'0' * 24}", "nonsense", f"{foreign}/../{foreign}", ""):
        error = refusal(one, read["call_id"], reference)
        assert error == refusal(one, read["call_id"], f"{end}.7.{'1' * 24}")
        assert (error["error_code"], error["details"]) == ("INVALID_ARGUMENTS", {"field": "payload_ref"})
    one.result(read, {"content": "fine"})
    assert one.idle() == "Done"


def test_an_expired_upload_is_refused(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    (read,) = reading(one, model, "over")
    error = refusal(one, read["call_id"], f"{int(time.time() * 1000) - 1}.100.{'0' * 24}")
    assert "expired" in error["message"]
    assert error["error_code"] == "INVALID_ARGUMENTS"


def test_an_upload_is_only_valid_for_its_own_frame(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    first, second = reading(one, model, "own", READ, call("read_file", path="b.txt"))
    reference = one.upload("tool_result", call_id=first["call_id"], result={"content": "one"})
    assert refusal(one, second["call_id"], reference)["error_code"] == "INVALID_ARGUMENTS"
    one.send_wrong("hitl_decision", call_id=first["call_id"], payload_ref=reference)
    assert one.expect("error")["error_code"] == "INVALID_ARGUMENTS"
    for _ in range(2):  # an exact repeat is accepted again
        one.send("tool_result", call_id=first["call_id"], payload_ref=reference)
    one.result(second, {"content": "two"})
    assert one.idle() == "Done"
    assert len(one.of_type("error")) == 2
    assert len(told_results(model.requests["own"][-1]["messages"])) == 2


def test_an_invalid_upload_is_refused_like_an_invalid_frame(ide: Open, model: ScriptedModel) -> None:
    one = ide()
    (read,) = reading(one, model, "bad")
    for body, code in (
        (b"no json", "INVALID_FORMAT"),
        (b"\xff\xfe", "INVALID_FORMAT"),
        (json.dumps({"type": "tool_result", "call_id": read["call_id"]}).encode(), "INVALID_ARGUMENTS"),
        (json.dumps({"type": "tool_result", "result": 1}).encode(), "MISSING_FIELD"),
        (json.dumps({"type": "tool_result", "payload_ref": "x"}).encode(), "INVALID_ARGUMENTS"),
    ):
        ticket = one.ticket(len(body))
        assert put(ticket, body) == 200
        assert refusal(one, read["call_id"], ticket["payload_ref"])["error_code"] == code
    unused = one.ticket(10)
    assert "No upload with this payload_ref" in refusal(one, read["call_id"], unused["payload_ref"])["message"]


def test_a_frame_that_is_too_large_gets_no_ticket(ide: Open) -> None:
    one = ide()
    one.send("upload_request", bytes=10_000_001)
    assert one.expect("error")["error_code"] == "PAYLOAD_TOO_LARGE"
    one.ticket(10_000_000)
    one.send_wrong("upload_request", bytes=0)
    assert one.expect("error")["error_code"] == "INVALID_ARGUMENTS"


def test_a_ticket_is_for_one_upload_of_its_size_and_kind(ide: Open) -> None:
    one = ide()
    ticket = one.ticket(10)
    headers = ticket["headers"]
    assert put(ticket, b"x" * 11, **{**headers, "Content-Length": "11"}) == 403
    assert put(ticket, b"x" * 9, **{**headers, "Content-Length": "9"}) == 403
    assert put(ticket, b"x" * 10, **{name: it for name, it in headers.items() if name != "If-None-Match"}) == 403
    other = {**ticket, "url": ticket["url"].replace(ticket["payload_ref"], ticket["payload_ref"] + "0")}
    assert put(other, b"x" * 10) == 403
    assert put(ticket, b"x" * 10) == 200
    assert put(ticket, b"y" * 10) == 412


@pytest.mark.parametrize("frames", [1, 8], ids=["a frame over 32 KB", "a message over 128 KB"])
def test_a_result_that_exceeds_a_message_fails_only_its_call(ide: Open, model: ScriptedModel, frames: Any) -> None:
    name = f"cut {frames}"
    one, two = ide(f"payload-cut-{frames}"), ide(f"payload-cut-{frames}", extensions=True, viewer=1)
    (read,) = reading(one, model, name)
    body = json.dumps({"type": "tool_result", "call_id": read["call_id"], "result": "x" * frames * 40_000})
    pieces = [body[start : start + 30_000] for start in range(0, len(body), 30_000)]

    with contextlib.suppress(ConnectionClosed):
        one.socket.send(body if frames == 1 else pieces)
    with pytest.raises(ConnectionClosed):
        one.idle()
    assert two.expect("call_update")["state"] == "failed"
    assert two.idle() == "Done"
    assert "PAYLOAD_TOO_LARGE" in shown(model, name)
