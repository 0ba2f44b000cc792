"""Arguments and results that are too large for an item or a frame, on the pure core. World checks every transaction's
size.
"""

import json
from typing import Any

from codelab.protocol.errors import ErrorCode
from codelab.sessions.items import MessageItem, Reference, digest_of
from codelab.sessions.store import Conversation
from codelab.turns.context import assemble
from codelab.turns.text import excerpt, shortened, within_bytes

from tests.turns.world import OTHER, READ, RUN, calling, dispatched, refusal, unchanged


def write(size: Any, letter: Any = "x") -> Any:
    return ("write_file", {"path": "a.py", "content": letter * size})


def test_a_large_call_is_logged_without_its_arguments_which_are_an_object() -> None:
    world, (call_id,) = calling(write(900_000))
    (frame,) = world.of_type("tool_call")
    assert "arguments" not in frame
    payload = world.events[frame["seq"] - 1].payload
    assert json.loads(world.objects[payload.digest]) == write(900_000)[1]
    assert payload.bytes == len(world.objects[payload.digest])
    assert world.call_item(call_id)["arguments"] == {"digest": payload.digest, "bytes": payload.bytes}


def test_a_call_that_fits_a_frame_is_logged_with_its_arguments() -> None:
    world, (call_id,) = calling(write(90_000))
    (frame,) = world.of_type("tool_call")
    assert frame["arguments"] == write(90_000)[1]
    assert isinstance(world.call_item(call_id)["arguments"], dict), "the item refers to them all the same"


def test_sixteen_large_calls_of_one_answer_are_all_made() -> None:
    world, call_ids = calling(*[write(90_000, letter) for letter in "abcdefghijklmnop"])
    assert len(world.of_type("tool_call")) == len(call_ids) == 16
    message = MessageItem.of(world.table["MESSAGE#000000002"])
    assert {len(call.arguments["content"]) < 10_000 for call in message.calls} == {True}
    assert message.calls[3].arguments["content"].startswith("dddd")


def test_all_that_sixteen_calls_can_hold_is_settled_in_one_transaction() -> None:
    """The most there can be: each with arguments, an edit, words and output just below what an item keeps itself."""
    command = {"command": "é" * 15_900}
    world, call_ids = calling(*[("run_command", command)] * 16)
    for call_id in call_ids:
        edited = {"command": "ü" * 15_900}
        world.decision(call_id, "edit", modified_arguments=edited, feedback="ä" * 10_000)
        world.result(call_id, result={"stdout": "\u001b" * 20_000, "exit_code": None})
    world.cancel()
    assert world.history()[-1][0] == "tool"


def test_an_approved_large_call_is_sent_again_by_its_reference_and_a_smaller_one_in_full() -> None:
    for size, inline in ((90_000, True), (900_000, False)):
        world, (call_id,) = calling(write(size))
        world.decision(call_id, "approve")
        asking, granted = world.of_type("tool_call")
        assert granted["requires_approval"] is False
        assert granted.get("arguments") == asking.get("arguments")
        assert ("arguments" in granted) is inline
        assert world.events[granted["seq"] - 1].payload == world.events[asking["seq"] - 1].payload


def test_a_large_edit_is_what_is_executed_and_the_model_is_told_its_beginnings() -> None:
    world, (call_id,) = calling(write(10))
    edit = {"path": "b.py", "content": "y" * 500_000}
    world.decision(call_id, "edit", modified_arguments=edit)
    sent = world.events[world.of_type("tool_call")[-1]["seq"] - 1].payload
    assert json.loads(world.objects[sent.digest]) == edit
    assert unchanged(world.decision(call_id, "edit", modified_arguments=edit))
    other = {"path": "b.py", "content": "z"}
    assert refusal(lambda: world.decision(call_id, "edit", modified_arguments=other)).code is ErrorCode.INVALID_CALL_ID
    world.result(call_id, result={"success": True})
    told = json.loads(world.history()[-1][1])
    assert told["edited_arguments"]["path"] == "b.py"
    assert len(told["edited_arguments"]["content"]) < 5_000


def test_a_large_result_is_an_object_and_the_history_has_its_beginning_and_end() -> None:
    world, (call_id,) = calling(READ)
    result = {"content": "begin" + "я" * 600_000 + "end"}
    world.result(call_id, result=result)
    stored = world.call_item(call_id)["outcome"]
    assert json.loads(world.objects[stored["digest"]]) == {"result": result}
    message = MessageItem.of(world.table["MESSAGE#000000003"])
    assert message.whole == len(json.dumps(result, ensure_ascii=False, separators=(",", ":")))
    assert message.content.startswith('{"content":"begin')
    assert message.content.endswith('end"}')
    assert call_id in message.content


def test_a_repeat_of_a_large_result_changes_nothing_and_another_one_is_refused() -> None:
    world, (call_id, _) = calling(READ, ("read_file", {"path": "b.py"}))
    world.result(call_id, result={"content": "x" * 600_000})
    assert unchanged(world.result(call_id, result={"content": "x" * 600_000}))
    other = refusal(lambda: world.result(call_id, result={"content": "y" * 600_000}))
    assert other.code is ErrorCode.INVALID_CALL_ID


def test_output_in_large_pieces_reaches_other_windows_by_its_reference() -> None:
    world, (call_id,) = calling(RUN)
    world.join(OTHER)
    world.decision(call_id, "approve")
    piece = {"stdout": "x" * 300_000, "exit_code": None}
    world.result(call_id, result=piece)
    (progress,) = world.of_type("tool_progress")
    assert "result" not in progress
    assert json.loads(world.objects[world.events[progress["seq"] - 1].payload.digest]) == piece


def test_the_same_large_call_that_fails_again_and_again_is_recognised() -> None:
    world = dispatched()
    for _ in range(3):
        (call_id,) = world.answer("", write(200_000))
        world.decision(call_id, "approve")
        world.result(call_id, error={"code": ErrorCode.PERMISSION_DENIED, "message": "no"})
    sent = len(world.of_type("tool_call"))
    world.answer("", write(200_000))
    assert len(world.of_type("tool_call")) == sent


# -- what the model is sent ----------------------------------------------------------------------------------------


def test_a_result_that_is_cut_twice_still_says_where_to_read_on() -> None:
    text = "".join(f"{n:06}," for n in range(100_000))
    kept = within_bytes(text, 32_000, lambda whole, most: excerpt(whole, most, "call_1"))
    again = excerpt(kept, 10_000, "call_1", len(text))
    head, note, tail = again.split("\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert f"offset {len(head)}" in note
    assert f"characters {len(head)} to {len(text) - len(tail)} of {len(text)} cut out" in note
    assert "call_1" in note
    assert len(again) < 10_500


def test_a_turn_goes_on_after_a_large_call_and_a_large_result() -> None:
    world, (call_id,) = calling(write(900_000))
    world.decision(call_id, "approve")
    world.result(call_id, result={"log": "漢字" * 300_000})
    history = [MessageItem.of(item) for sk, item in sorted(world.table.items()) if sk.startswith("MESSAGE#")]
    _, user, answer, result = assemble(Conversation(history), "Be brief.", budget=8_000)
    assert user["content"] == "hello"
    arguments = json.loads(answer["tool_calls"][0]["function"]["arguments"])
    assert arguments["path"] == "a.py"
    assert "cut out" in arguments["content"]
    assert "read_result" in result["content"]


def test_the_agent_sees_line_numbers_if_the_ide_says_where_the_content_begins() -> None:
    def shown(result: object) -> str:
        world, (call_id,) = calling(READ)
        world.result(call_id, result=result)
        return world.history()[-1][1]

    part = {"content": "def f():\n\treturn 1\n", "first_line": 9, "total_lines": 96}
    assert shown(part) == "9\tdef f():\n10\t\treturn 1\n[lines 9 to 10 of 96]"
    assert shown({"content": "a\r\nb\r\n", "first_line": 1}) == "1\ta\n2\tb\n[lines end with CRLF]"
    assert shown({"content": "a\r\nb\n", "first_line": 1}) == "1\ta\r\n2\tb"
    assert shown({"content": "a\r\nb", "first_line": 1}) == "1\ta\n2\tb\n[lines end with CRLF]"
    assert shown({"content": "a\n"}) == '{"content":"a\\n"}'
    for first in (0, -1, True, "1", 10**30, None):
        assert json.loads(shown({"content": "a", "first_line": first}))["content"] == "a"


def test_the_agent_reads_on_where_a_result_was_cut() -> None:
    world, (call_id,) = calling(READ)
    lines = "".join(f"line {n}\n" for n in range(20_000))
    world.result(call_id, result={"content": lines})
    whole = json.dumps({"content": lines}, separators=(",", ":"))
    read = ""
    while len(read) < 30_000:
        world.answer("", ("read_result", {"call_id": call_id, "offset": len(read), "limit": 9_999_999}))
        part, note = world.history()[-1][1].rsplit("\n", 1)
        assert note == f"[characters {len(read)} to {len(read) + 8_000} of {len(whole)}]"
        read += part
    assert whole.startswith(read)
    assert len(world.of_type("tool_call")) == 1, "no IDE sees it"


def test_the_agent_reads_a_result_of_an_earlier_turn_and_how_a_large_edit_ended() -> None:
    world, (call_id,) = calling(write(10))
    world.decision(call_id, "edit", modified_arguments={"path": "b.py", "content": "y" * 500_000})
    world.result(call_id, error={"code": ErrorCode.FILE_TOO_LARGE, "message": "no " * 20_000})
    shown = world.history()[-1][1]
    world.answer("Done")
    world.say("And now?")
    world.answer("", ("read_result", {"call_id": call_id}))
    assert world.history()[-1][1].startswith(shown[:5_000])


def test_what_cannot_be_read_is_the_models_to_correct() -> None:
    world, (call_id, _) = calling(READ, ("read_file", {"path": "b.py"}))
    world.result(call_id, result={"content": "short"})
    world.cancel()
    world.say()
    for arguments, code in (
        ({"call_id": "call_of_somebody_else"}, "INVALID_CALL_ID"),
        ({"call_id": call_id, "offset": 19}, "INVALID_ARGUMENTS"),
        ({"call_id": call_id, "offset": -1}, "INVALID_ARGUMENTS"),
        ({"call_id": "x" * 5_000}, "INVALID_ARGUMENTS"),
    ):
        world.answer("", ("read_result", arguments))
        assert json.loads(world.history()[-1][1])["error"]["code"] == code
    world.answer("", ("read_result", {"call_id": call_id}))
    assert world.history()[-1][1] == '{"content":"short"}\n[characters 0 to 19 of 19]'


def test_arguments_are_shortened_where_they_are_long() -> None:
    kept = shortened({"path": "a.py", "edits": [{"text": "x" * 9_000}, {"text": "short"}]}, 1_000)
    assert kept["path"] == "a.py"
    assert kept["edits"][1] == {"text": "short"}
    assert len(json.dumps(kept)) < 1_000
    assert shortened({"path": "a.py"}, 1_000) == {"path": "a.py"}
    assert len(json.dumps(shortened({"numbers": list(range(9_000))}, 1_000))) < 1_000


def test_a_content_is_the_same_wherever_it_is_kept() -> None:
    content = {"a": [1, 2.5, None], "б": "\U0001f600"}
    digest = digest_of(content)
    assert digest_of(json.loads(json.dumps(content))) == digest
    assert digest_of(Reference(digest, 5)) == digest
