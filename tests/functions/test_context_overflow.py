"""A model whose window is smaller than the server believes: its step is tried once with half, then the user is told."""

from collections.abc import Iterator
from typing import Any

import pytest
from codelab.llm.errors import TransportError
from codelab.llm.tokens import estimate_context

from tests.functions.system import System
from tests.sampling import sampled

TOO_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens."


def overflows(status: int | None = 400) -> Iterator[str]:
    """The provider's refusal, before any text."""
    raise TransportError(TOO_LONG, status=status)
    yield ""


def with_history(system: System, messages: int = 6) -> None:
    for number in range(messages):
        system.model.says(f"answer {number} " + "word " * 200)
        system.say("c1", f"question {number} " + "word " * 200)
    system.model.requests.clear()


def error_of(system: System) -> dict[str, Any]:
    return next(frame for frame in system.aws.frames("c1") if frame["type"] == "error")


def size(request: Any) -> int:
    return estimate_context(request["messages"])


@pytest.mark.parametrize("status", sampled([400, 413, 422, None, 500]))
def test_the_step_is_tried_with_half_of_it(connected: System, status: int | None) -> None:
    with_history(connected)
    connected.model.answers.append(overflows(status))
    connected.model.says("It fits")
    connected.say("c1", "the last question")
    first, second = connected.model.requests
    system = size({"messages": first["messages"][:1]})
    assert size(second) - system <= (size(first) - system) / 2
    assert "the last question" in str(second["messages"][-1])
    assert "question 0" in str(first["messages"])
    assert "question 0" not in str(second["messages"])
    assert connected.history()[-1] == ("assistant", "It fits")
    assert "error" not in [frame["type"] for frame in connected.aws.frames("c1")]


def test_a_second_overflow_is_told_as_what_it_is(connected: System) -> None:
    with_history(connected)
    connected.model.answers += [overflows(), overflows()]
    connected.say("c1", "the last question")
    assert len(connected.model.requests) == 2
    error = error_of(connected)
    assert error["error_code"] == "CONTEXT_TOO_LARGE"
    assert "larger than the model's context" in error["content"]
    assert error["retryable"] is False
    assert error["details"]["reason"] == "context_overflow"
    assert TOO_LONG not in str(connected.aws.frames("c1")), "the provider's words are for the log"


def test_a_message_that_does_not_fit_into_half_is_told(connected: System) -> None:
    connected.model.answers.append(overflows())
    connected.say("c1", "word " * 300)
    assert (len(connected.model.requests), error_of(connected)["error_code"]) == (1, "CONTEXT_TOO_LARGE")
    assert error_of(connected)["details"]["reason"] == "context_overflow"


def test_a_text_that_was_shown_is_not_asked_for_again(connected: System) -> None:
    def ends() -> Iterator[str]:
        yield '{"message": "Once'
        raise TransportError(TOO_LONG, status=None)

    connected.model.answers.append(ends())
    connected.say("c1")
    assert (len(connected.model.requests), error_of(connected)["error_code"]) == (1, "CONTEXT_TOO_LARGE")
