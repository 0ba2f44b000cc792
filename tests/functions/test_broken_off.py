"""A model that breaks off in the middle of its answer is asked once more, where nobody then reads two answers."""

from collections.abc import Iterator

import pytest
from codelab.llm.errors import TransportError

from tests.fakes.aws.recorder import TRANSACTION, UPDATE
from tests.fakes.ide.received import messages
from tests.functions.system import System


def breaks_off(system: System, text: str) -> Iterator[str]:
    """The beginning of an answer, which is shown; then the connection ends."""
    system.aws.wait_for(UPDATE, 1)
    yield '{"message": "' + text
    raise TransportError("the connection ended", retryable=True)


def test_its_text_is_discarded_and_the_second_answer_stays(extended: System) -> None:
    extended.model.answers.append(breaks_off(extended, "Once upon"))
    extended.model.says("A time")
    extended.say("c1")
    assert extended.history() == [("user", "hello"), ("assistant", "A time")]
    (message_id,) = messages(extended.aws.frames("c1"))
    assert messages(extended.aws.frames("c1"))[message_id] == "A time"
    assert [message.get("message_id") for message in [extended.item("MESSAGE#000000002")]] == [message_id]
    frames = extended.aws.frames("c1")
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert [frame["type"] for frame in frames][:6] == [
        "user_message", "agent_status",
        "assistant_message", "assistant_message", "message_discarded", "assistant_message",
    ]  # fmt: skip
    assert frames[3]["aborted"] is True
    assert extended.aws.calls.count(TRANSACTION) == 2, "the restart, the commit"
    register = extended.item("REGISTER")
    assert (register["phase"], "due_at" in register) == ("idle", False)
    end = next(frame for frame in frames if frame["type"] == "turn_end")
    assert end["usage"]["llm_calls"] == 2


def test_it_is_not_asked_a_third_time(extended: System) -> None:
    extended.model.answers += [breaks_off(extended, "Once"), breaks_off(extended, "Twice")]
    extended.say("c1")
    assert extended.aws.calls.count("model") == 2
    error = next(frame for frame in extended.aws.frames("c1") if frame["type"] == "error")
    assert error["error_code"] == "LLM_ERROR"
    assert messages(extended.aws.frames("c1")).popitem()[1] == "Twice"


@pytest.mark.parametrize("text", ["Once upon", ""])
def test_a_client_without_extensions_gets_an_error_and_no_second_text(connected: System, text: str) -> None:
    """Unless it was shown nothing yet."""
    connected.model.answers.append(breaks_off(connected, text))
    connected.model.says("A time")
    connected.say("c1")
    types = [frame["type"] for frame in connected.aws.frames("c1")]
    assert ("error" in types) == bool(text)
    assert "message_discarded" not in types
    assert "".join(messages(connected.aws.frames("c1")).values()) == (text or "A time")


def test_a_long_text_is_not_paid_for_twice(extended: System) -> None:
    extended.model.answers.append(breaks_off(extended, "word " * 2_001))
    extended.say("c1")
    assert extended.aws.calls.count("model") == 1
    assert "error" in [frame["type"] for frame in extended.aws.frames("c1")]


def test_a_provider_that_refuses_is_not_asked_again(extended: System) -> None:
    def refused() -> Iterator[str]:
        yield '{"message": "Once'
        raise TransportError("quota", status=400)

    extended.model.answers.append(refused())
    extended.say("c1")
    assert extended.aws.calls.count("model") == 1


def test_a_cancelled_turn_is_not_asked_again(extended: System) -> None:
    extended.function("control")

    def cancelled() -> Iterator[str]:
        yield from ['{"message": "Once']
        extended.function("control")(extended.event("c1", {"type": "cancel"}))
        raise TransportError("the connection ended", retryable=True)

    extended.model.answers.append(cancelled())
    extended.say("c1")
    assert extended.aws.calls.count("model") == 1
    assert "message_discarded" not in [frame["type"] for frame in extended.aws.frames("c1")]
    assert extended.history()[-1] == ("assistant", "Once")
