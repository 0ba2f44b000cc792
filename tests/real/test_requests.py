"""Requests to a real model: whole, streamed, cut by their output limit, and cancelled in the middle of the stream.

The model is tiny and writes nonsense; what it writes must have the form that was asked for, and everything else must be
a typed error.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import jsonschema_rs
import pytest
from codelab.http.cancellation import Cancellation
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import Cancelled, Length, RequestError

from tests.llm.answer import answer_of
from tests.real.llama import MODEL, Llama
from tests.real.schemas import real_requests

pytestmark = [pytest.mark.deep, pytest.mark.real]

#: How many Requests; fewer are a sample of all.
COUNT = min(200, int(os.environ.get("REAL_REQUESTS", "200")))
#: Schemas that are answered whole and streamed; of the first ones, an answer is cut or cancelled, too.
_SCHEMAS, _STOPPED = 80, 40
#: Seconds that one Request may take, and how much longer it may need to notice that they have passed.
_DEADLINE_S, _NOTICE_S = 180.0, 20.0
#: Tokens of an answer that may finish, and of one that is cut; pieces of the stream before one is cancelled.
_LIMIT, _CUT, _PIECES = 1_000, 6, 4
#: Against endless repetition, which so small a model is prone to, and for tokens that close something.
_SAMPLING: Mapping[str, Any] = {
    "repeat_penalty": 1.15,
    "repeat_last_n": 128,
    "logit_bias": dict.fromkeys(('"', '",', "]", "}", '"}', "]}"), 6),
}

How = Literal["whole", "streamed", "cut", "cancelled"]


class Case(NamedTuple):
    how: How
    name: str
    schema: Any
    message: str


class CancellingTransport:
    """A transport that cancels after so many pieces of the answer, before it passes on the next one."""

    def __init__(self, inner: DirectTransport, cancellation: Cancellation, pieces: int) -> None:
        self._inner, self._cancellation, self._pieces = inner, cancellation, pieces
        self.base_url = inner.base_url

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        for place, chunks in enumerate(self._inner.send(body, call), 1):
            yield chunks
            if place == self._pieces:
                self._cancellation.cancel()


def cases() -> list[Case]:
    """All Requests of one schema follow each other, because the server keeps what it has read of the last prompt."""
    planned: list[Case] = []
    for place, (name, schema, message) in enumerate(real_requests(_SCHEMAS)):
        ways: list[How] = ["whole", "streamed"]
        if place < _STOPPED:
            ways.append("cancelled" if place % 2 else "cut")
        planned += [Case(how, name, schema, message) for how in ways]
    return [planned[place] for place in sorted(random.Random(0).sample(range(len(planned)), COUNT))]


def outcome(case: Case, seed: int, llama: Llama) -> str:
    """What came of the Request: "valid", the name of a typed error, "hang", or "crash" and the name of any other."""
    limit = _CUT if case.how == "cut" else _LIMIT
    config = RequestConfig(
        MODEL, provider="llama.cpp", seed=seed, temperature=0.3, max_output_tokens=limit, extra_body=_SAMPLING
    )
    context = [{"role": "user", "content": case.message}]
    request = Request(config, case.schema, context, unsupported=UnsupportedFeatures())
    direct, cancellation = DirectTransport(base_url=llama.base_url, api_key="none"), Cancellation()
    transport = CancellingTransport(direct, cancellation, _PIECES) if case.how == "cancelled" else direct
    begun = time.monotonic()
    try:
        result = answer_of(
            request, transport, streamed=case.how != "whole", deadline=begun + _DEADLINE_S, cancel=cancellation
        ).result
        jsonschema_rs.validate(case.schema, result.solution)
    except RequestError as error:
        hangs = time.monotonic() > begun + _DEADLINE_S + _NOTICE_S
        return "hang" if hangs else type(error).__name__
    except Exception as error:
        return f"crash: {type(error).__name__}"
    return "valid" if result.strategy == "native" else f"valid by {result.strategy}"


def test_real_answers_are_valid_and_everything_else_is_a_typed_error(llama: Llama, figures: list[str]) -> None:
    outcomes: dict[str, Counter[str]] = {how: Counter() for how in ("whole", "streamed", "cut", "cancelled")}
    rest: list[str] = []
    for seed, case in enumerate(cases()):
        came = outcome(case, seed, llama) if llama.is_running else "crash: the server"
        outcomes[case.how][came] += 1
        if case.how in ("whole", "streamed") and came != "valid":
            rest.append(f"{case.name} {case.how}: {came}")
    finished = outcomes["whole"] + outcomes["streamed"]
    every = finished + outcomes["cut"] + outcomes["cancelled"]
    valid, total = finished["valid"], finished.total()
    crashes = sum(count for came, count in every.items() if came.startswith("crash"))
    figures.append(
        f"{every.total()} Requests: {valid} of {total} that could finish are valid in native ({valid / total:.1%}); "
        f"crashes {crashes}, hangs {every['hang']}"
    )
    figures += [f"  {how}: {dict(counts)}" for how, counts in outcomes.items()]
    figures.append(f"  the rest: {', '.join(rest) or 'none'}")
    assert not crashes
    assert not every["hang"]
    assert valid >= 0.95 * total, rest
    # An answer that was cut or cancelled is none, unless it was complete before.
    assert set(outcomes["cut"]) <= {"valid", Length.__name__}
    assert set(outcomes["cancelled"]) <= {"valid", Cancelled.__name__}
    assert outcomes["cut"][Length.__name__] >= outcomes["cut"]["valid"]
    assert outcomes["cancelled"][Cancelled.__name__] >= outcomes["cancelled"]["valid"]
