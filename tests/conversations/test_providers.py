"""Whole conversations with a model behind each API, whose server refuses what is against the provider's documents."""

import json
from collections.abc import Iterator

import pytest
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE, Open, opener
from tests.fakes.model.apis import SPOKEN
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.fakes.model.told_results import told_results
from tests.waiting import until

#: US dollars per million tokens.
PRICES = {"scripted": {"prompt": 10, "completion": 100}}


#: `llm/test_request.py` asks over each API in every run. Here each costs a cloud of its own.
OTHERS = [pytest.param(api, marks=pytest.mark.deep) for api in SPOKEN if api != "anthropic-messages"]


@pytest.fixture(scope="module", params=["anthropic-messages", *OTHERS])
def model(request: pytest.FixtureRequest) -> Iterator[ScriptedModel]:
    with ScriptedModel(spoken=SPOKEN[request.param]()) as running:
        yield running


@pytest.fixture(scope="module")
def cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    with LocalCloud(TEMPLATE, environment={**model.environment, "LLM_PRICES": json.dumps(PRICES)}) as running:
        yield running


@pytest.fixture
def ide(cloud: LocalCloud, model: ScriptedModel) -> Iterator[Open]:
    model.refusals.clear()
    yield from opener(cloud)


def test_a_turn_with_tools_and_an_approval_and_the_next_one(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    reads = [call("read_file", path="a.py"), call("read_file", path="b.py")]
    write = call("write_file", path="c.py", content="x = “1”\n")
    script = model.script("work", Says("I look. ", reads), Says("", [write]), Says("Written."))
    answers = {"read_file": {"content": "x = 0"}, "write_file": {"success": True}}
    assert session.converse(script, lambda asked: answers[asked["tool_name"]]) == "I look. Written."
    [end] = session.of_type("turn_end")
    pieces = [request["messages"] for request in model.requests["work"]]
    assert len(pieces) == 3
    assert [len(told_results(messages)) for messages in pieces] == [0, 2, 3]
    assert session.ask(model.script("more", Says("Gladly."))).endswith("Gladly.")
    assert "Written." in json.dumps(model.requests["more"][0]["messages"])
    assert model.refusals == []
    assert end["reason"] == "completed"
    usage = end["usage"]
    assert (usage["llm_calls"], usage["prompt_tokens"]) == (3, 300)
    assert usage["cost_usd"] == pytest.approx((300 * 10 + usage["completion_tokens"] * 100) / 1_000_000)


def test_native_calls_and_their_results_follow_the_rules_of_the_api(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.request("session_config", model="other")
    reads = [call("read_file", path="a.py"), call("read_file", path="b.py")]
    session.ask(model.script("first", Says("A title comes first.")))
    script = model.script("native", Says("I look. ", reads), Says("", [call("read_file", path="c.py")]), Says("Seen."))
    assert session.converse(script, lambda asked: {"content": asked["arguments"]["path"]}) == "I look. Seen."
    last = model.requests["native"][-1]["messages"]
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert [json.loads(result)["content"] for result in results] == ["a.py", "b.py", "c.py"]
    assert model.refusals == []


def test_a_long_answer_streams(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    text = "Слово за словом 😀 " * 40
    assert session.ask(model.script("long", Says(text, delay=0.003))) == text
    frames = session.of_type("assistant_message")
    assert len(frames) >= 2, "the text came in one piece"


def test_an_image_reaches_the_model(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = {"type": "image", "media_type": "image/png", "data": pixel}
    assert session.ask(model.script("seen", Says("A pixel.")), attachments=[image]) == "A pixel."
    assert any(pixel.encode() in exchange.content for exchange in model.received)
    assert model.refusals == []


def test_cancel_drops_the_request_to_the_model_and_the_session_goes_on(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.say(model.script("talking", Says("word " * 2_000, delay=0.01)))
    session.expect("assistant_message")
    session.send("cancel")
    session.expect("turn_end", reason="cancelled")
    session.idle()
    until(lambda: "talking" in model.hung_up)
    assert session.ask(model.script("after", Says("Here"))).endswith("Here")
    assert model.refusals == []


def test_cancel_interrupts_a_silent_model(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.say(model.script("silent", Says("never said", silence=20)))
    session.expect("agent_status", status="thinking")
    session.send("cancel")
    assert session.expect("turn_end")["reason"] == "cancelled"


def test_a_stream_that_breaks_off_is_an_error(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    session.say(model.script("cut", Says("This breaks off in the middle", cut=8)))
    error = session.expect("error")
    assert error["details"]["reason"] in ("truncated", "transport")
    session.idle()
    assert session.ask(model.script("again", Says("Here"))).endswith("Here")


def test_thoughts_are_shown_and_are_not_the_answer(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.request("session_config", thinking="high")
    assert session.ask(model.script("thinking", Says("Seven.", thought="Three and four."))) == "Seven."
    assert "".join(frame["content"] for frame in session.of_type("assistant_thought")) == "Three and four."
    assert model.refusals == []
