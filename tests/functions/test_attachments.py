"""Images and texts that come with messages and results: what is stored, and what the model sees."""

import base64
import json
from collections import Counter
from typing import Any

import pytest

from tests.fakes.model.script import call
from tests.fakes.model.told_results import told_results
from tests.functions.system import Context, System
from tests.functions.test_payloads import GET, PUT, upload

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"pixels").decode()
LARGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"pixels" * 20_000).decode()
IMAGE = {"type": "image", "name": "shot.png", "media_type": "image/png", "data": PNG}
TEXT = {"type": "text", "name": "build.log", "content": "error: ``` is not closed"}
#: A model of the table that takes images, and one that takes none.
SEES, BLIND = "gpt-4.1", "gpt-3.5-turbo"


@pytest.fixture
def seeing(extended: System) -> System:
    extended.environment = {"LLM_MODEL": SEES, "LLM_MODELS": BLIND, "DEFAULT_AGENT": "coder"}
    return extended


def asked(system: System, *attachments: dict[str, Any], content: str = "What is this?") -> list[dict[str, Any]]:
    """The messages that the model gets with a message."""
    system.send("c1", "user_message", content=content, attachments=list(attachments))
    system.model.says("A button.")
    system.run_step()
    messages: list[dict[str, Any]] = system.model.requests[-1]["messages"]
    return messages


def error(system: System) -> dict[str, Any]:
    return [frame for frame in system.aws.frames("c1") if frame["type"] == "error"][-1]


def configure(system: System, **settings: Any) -> None:
    system.send_raw("c1", "control", json.dumps({"type": "session_config", **settings}))


def test_the_model_sees_an_image_and_a_text_with_the_message(seeing: System) -> None:
    said = asked(seeing, IMAGE, TEXT)[-1]
    assert said["role"] == "user"
    assert said["content"] == [
        {"type": "text", "text": "What is this?\n\n# Attached: build.log\n````\nerror: ``` is not closed\n````"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    [logged] = [frame for frame in seeing.aws.frames("c1") if frame["type"] == "user_message"]
    assert logged["attachments"] == [
        {"type": "image", "name": "shot.png", "media_type": "image/png", "bytes": len(PNG) * 3 // 4},
        {"type": "text", "name": "build.log", "bytes": 24},
    ]
    assert asked(seeing)[1] == said, "it stays in the history"


def test_a_large_one_is_an_object_that_is_read_once_by_a_process(seeing: System) -> None:
    image = {**IMAGE, "data": LARGE}
    reference = upload(seeing, "c1", "user_message", content="What is this?", attachments=[image])
    seeing.send("c1", "user_message", payload_ref=reference)
    assert Counter(seeing.aws.calls)[PUT] == 1
    assert "data" not in json.dumps(seeing.item("MESSAGE#000000001"))
    seeing.model.says("A button.")
    seeing.run_step()
    assert seeing.aws.calls.count(GET) == 1
    assert LARGE in json.dumps(seeing.model.requests[-1]["messages"])
    assert LARGE in json.dumps(asked(seeing)), "the next turn sees it"
    assert GET not in seeing.aws.calls


def test_a_queued_message_keeps_its_attachments(seeing: System) -> None:
    seeing.send("c1", "user_message", content="Hello!")
    _, step = seeing.aws.last_invoke
    seeing.send("c1", "user_message", content="What is this?", attachments=[IMAGE])
    for _ in range(2):
        seeing.model.says("A button.")
    seeing._handle("llm_request", step, Context())
    assert PNG in json.dumps(seeing.model.requests[-1]["messages"])


def test_an_image_is_refused_where_the_model_takes_none(seeing: System) -> None:
    configure(seeing, model=BLIND)
    seeing.send("c1", "user_message", content="What is this?", attachments=[IMAGE])
    refused = error(seeing)
    assert (refused["error_code"], refused["details"]) == ("INVALID_ARGUMENTS", {"field": "attachments"})
    assert f"The model {BLIND} takes no images" in refused["content"]
    assert SEES in refused["content"]
    assert "turn_id" not in seeing.item("REGISTER")
    assert isinstance(asked(seeing, TEXT)[-1]["content"], str), "a text is no image"


def test_a_model_that_takes_none_reads_that_there_was_one(seeing: System) -> None:
    asked(seeing, IMAGE)
    configure(seeing, model=BLIND)
    messages = asked(seeing)
    assert "[Attached image shot.png: this model takes no images]" in messages[1]["content"]
    assert PNG not in json.dumps(messages)


@pytest.mark.parametrize(
    ("attachments", "said"),
    [
        ([{**IMAGE, "data": "not base64!"}], "data must be base64"),
        ([{**IMAGE, "data": base64.b64encode(b"<svg onload=x>").decode()}], "the data is no image/png"),
        ([{**IMAGE, "media_type": "image/svg+xml"}], "media_type"),
        ([{"type": "image", "media_type": "image/png"}], "media_type and data"),
        ([{"type": "text"}], "attachments"),
        ([{"type": "text", "content": "x", "name": "a\nb"}], "name"),
        ([{"type": "text", "content": "x" * 200_001}], "content"),
        ([TEXT] * 9, "attachments"),
        ([{"type": "video", "content": "x"}], "type"),
    ],
)
def test_what_is_no_attachment_is_refused(seeing: System, attachments: list[dict[str, Any]], said: str) -> None:
    seeing.send("c1", "user_message", content="What is this?", attachments=attachments)
    refused = error(seeing)
    assert refused["error_code"] in ("INVALID_ARGUMENTS", "MISSING_FIELD")
    assert refused["details"]["field"].startswith("attachments")
    assert said in refused["content"] + refused["details"]["field"]


def test_a_result_may_have_an_image(seeing: System) -> None:
    [call_id] = seeing.ask("c1", "", call("read_file", path="shot.png"))
    bad = {"media_type": "image/png", "data": "AAAA"}
    images = [{"media_type": "image/png", "data": LARGE}, bad]
    reference = upload(seeing, "c1", "tool_result", call_id=call_id, result={"content": "A shot", "images": images})
    seeing.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    seeing.model.says("A button.")
    seeing.run_step()
    *_, answer, shown = messages = seeing.model.requests[-1]["messages"]
    assert [answer["role"], shown["role"]] == ["assistant", "user"]
    told = json.loads(told_results(messages)[0])
    assert told["images"] == ["shown below: image/png", "left out: the data is no image/png"]
    *_, image, reminder = shown["content"]
    assert image["image_url"]["url"] == f"data:image/png;base64,{LARGE}"
    assert reminder["text"].startswith("The task was:")


def test_what_a_result_calls_an_image_may_be_anything(seeing: System) -> None:
    [call_id] = seeing.ask("c1", "", call("read_file", path="shot.png"))
    images = [{"media_type": [], "data": "AAAA"}, {"media_type": {}, "data": "é"}, {"media_type": "image/png"}, 1, None]
    seeing.send("c1", "tool_result", call_id=call_id, result={"content": "A shot", "images": images})
    seeing.model.says("Nothing.")
    seeing.run_step()
    told = json.loads(told_results(seeing.model.requests[-1]["messages"])[-1])
    assert [found.partition(":")[0] for found in told["images"]] == ["left out"] * 5


def test_a_message_may_be_longer_on_a_connection_with_extensions(seeing: System) -> None:
    text = "x" * 100_000
    assert asked(seeing, content=text)[-1]["content"].endswith("x" * 1_000)
    seeing.connect("c2")
    seeing.send("c2", "user_message", content="x" * 10_001)
    [refused] = [frame for frame in seeing.aws.frames("c2") if frame["type"] == "error"]
    assert refused["content"] == "Invalid content: String should have at most 10000 characters"
    assert (refused["error_code"], refused["details"]) == ("INVALID_ARGUMENTS", {"field": "content"})
    seeing.send("c1", "user_message", content="x" * 100_001)
    assert "at most 100000 characters" in error(seeing)["content"]


def test_an_image_counts_as_a_thousand_tokens_and_not_by_its_bytes(seeing: System) -> None:
    asked(seeing, {**IMAGE, "data": base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"x" * 20_000).decode()})
    assert 1_000 < seeing.item("REGISTER")["history_tokens"] < 1_100
    usage = [frame for frame in seeing.aws.frames("c1") if frame["type"] == "turn_end"][-1]["usage"]
    assert 1_000 < usage["prompt_details"]["history_tokens"] < 1_100
