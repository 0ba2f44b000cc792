"""What a turn cost whose Request was stopped: nobody tells, so it is estimated and marked."""

from collections.abc import Iterator

import pytest
from codelab.llm.errors import Cancelled, TransportError

from tests.functions.system import System


@pytest.mark.parametrize("end", [Cancelled("stopped"), TransportError("the connection ended", retryable=True)])
def test_a_cancelled_turn_tells_an_estimate(extended: System, end: Exception) -> None:
    extended.function("control")

    def stopped() -> Iterator[str]:
        yield '{"message": "I begin with the first file, which is long. '
        extended.function("control")(extended.event("c1", {"type": "cancel"}))
        raise end

    extended.model.answers.append(stopped())
    extended.say("c1")
    (told,) = [frame for frame in extended.aws.frames("c1") if frame["type"] == "turn_end"]
    assert (told["reason"], told["usage"]["estimated"], told["usage"]["llm_calls"]) == ("cancelled", True, 1)
    assert told["usage"]["prompt_tokens"] > 100
    assert told["usage"]["completion_tokens"] > 5


def test_a_request_that_the_provider_refused_cost_nothing(extended: System) -> None:
    def refused() -> Iterator[str]:
        yield from ()
        raise TransportError("no", status=400)

    extended.model.answers.append(refused())
    extended.say("c1")
    (told,) = [frame for frame in extended.aws.frames("c1") if frame["type"] == "turn_end"]
    assert (told["reason"], told["usage"]["prompt_tokens"]) == ("error", 0)
    assert "estimated" not in told["usage"]
