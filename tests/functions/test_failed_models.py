"""What a step costs, and what people read, when the model or its provider fails."""

from collections.abc import Iterator
from typing import Any

import pytest
from codelab.llm.errors import ContentFilter, TransportError
from codelab.llm.failures import FailureKind

from tests.functions.system import System

#: The most calls of a model in one step, beside repairs.
MOST = 4


def failing(**error: Any) -> Iterator[str]:
    raise TransportError("Incorrect API key provided: sk-proj-abcdef123456", **error)
    yield ""


def broken_off() -> Iterator[str]:
    yield '{"message": "Hel'
    raise TransportError("connection reset", retryable=True)


def error(system: System) -> dict[str, Any]:
    (frame,) = [frame for frame in system.aws.frames("c1") if frame["type"] == "error"]
    return frame


@pytest.fixture(params=["orchestrator", "universal"])
def begun(system: System, request: pytest.FixtureRequest) -> System:
    """A session whose first message is routed, or not."""
    system.environment = {"DEFAULT_AGENT": request.param}
    system.connect("c1", extensions=True)
    return system


def test_prose_is_asked_for_json_once_more_and_then_it_is_an_error(begun: System) -> None:
    begun.model.answers += ["I would look at the file first."] * 9
    begun.say("c1")
    assert len(begun.model.requests) == 2
    assert error(begun)["error_code"] == "LLM_ERROR"


def test_a_model_that_breaks_off_again_and_again_is_asked_four_times_at_most(begun: System) -> None:
    begun.model.answers += [broken_off() for _ in range(9)]
    begun.say("c1")
    assert 1 < len(begun.model.requests) <= MOST


def test_a_grammar_that_is_refused_in_all_ways_costs_four_calls(begun: System) -> None:
    begun.model.answers += [failing(status=400, body="failed to parse grammar") for _ in range(9)]
    begun.say("c1")
    assert len(begun.model.requests) == MOST


def test_people_read_what_to_do_and_only_a_local_operator_reads_the_providers_words(begun: System) -> None:
    begun.model.answers.append(failing(status=401, kind=FailureKind.KEY))
    begun.say("c1")
    message = error(begun)["content"]
    assert "refused the API key" in message
    assert "codelab setup" in message
    assert "Incorrect API key" not in message


def test_a_local_operator_reads_the_providers_words_without_the_key(system: System) -> None:
    system.environment = {"CODELAB_LOCAL": "true"}
    system.connect("c1", extensions=True)
    system.model.answers.append(failing(status=401, kind=FailureKind.KEY))
    system.say("c1")
    message = error(system)["content"]
    assert "says: Incorrect API key provided: …" in message
    assert "abcdef" not in message


def filtered() -> Iterator[str]:
    words = "deployment acme-prod, key sk-abcdefghijkl12345"
    raise ContentFilter("the provider's content filter refused the request", words=words)
    yield ""


@pytest.mark.parametrize("is_local", [False, True])
def test_a_filters_own_words_are_for_a_local_operator_and_never_have_the_key(system: System, *, is_local: bool) -> None:
    system.environment = {"CODELAB_LOCAL": str(is_local).lower()}
    system.connect("c1", extensions=True)
    system.model.answers.append(filtered())
    system.say("c1")
    message = error(system)["content"]
    assert "content filter" in message
    assert ("Its provider says: deployment acme-prod" in message) is is_local
    assert "abcdefghijkl" not in message
