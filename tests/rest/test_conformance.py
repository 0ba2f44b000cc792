"""The API against its own OpenAPI document: every answer is documented."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from codelab_local import LocalCloud

from tests.cases import cases

if TYPE_CHECKING:
    from tests.rest.fuzzer import Fuzzer


#: Operations that only succeed with a conforming model or a connected IDE, or if the server pushes.
OTHERS = {
    *(("POST", "/api/v1/requests"), ("POST", "/api/v1/tools/execute"), ("GET", "/api/v1/tools/calls/{call_id}")),
    ("PUT", "/api/v1/push/subscriptions"),
}

PUBLISHED = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [(method.upper(), path) for path, methods in PUBLISHED["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def fuzzer(cloud: LocalCloud) -> "Fuzzer":
    from tests.rest.fuzzer import Fuzzer  # only here: every process of a test run imports this file

    return Fuzzer(cloud)


@cases(("method", "path"), OPERATIONS)
def test_every_answer_to_random_requests_is_documented(fuzzer: "Fuzzer", method: str, path: str) -> None:
    for valid in (True, False):
        fuzzer.fuzz(method, path, valid=valid, examples=1)


@pytest.mark.deep
def test_every_answer_to_two_thousand_random_requests_is_documented(fuzzer: "Fuzzer") -> None:
    before, examples = fuzzer.answers.total(), 80
    for method, path in OPERATIONS:
        for valid in (True, False):
            fuzzer.fuzz(method, path, valid=valid, examples=examples)
    assert fuzzer.answers.total() - before >= 2_000
    accepted = {(method, path) for method, path, status in fuzzer.answers if status < 300}
    assert accepted == set(OPERATIONS) - OTHERS, "and requests that are right are answered"
