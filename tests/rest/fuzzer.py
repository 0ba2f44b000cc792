"""Generated requests to each operation of the API, whose answers must be documented. Its imports take seconds."""

import itertools
from collections import Counter
from typing import Any

import httpx
import requests
import schemathesis
from codelab_local import LocalCloud
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

#: The allowed server errors (Agent Runtime API, "Коды ошибок"). The table works here: a DATABASE_ERROR would mean that
#: it got invalid data.
FAILURES = {"TOOL_EXECUTION_FAILED", "LLM_ERROR"}
ALWAYS = [status_code_conformance, content_type_conformance, response_headers_conformance]


class Fuzzer:
    """Sends generated requests, checks the answers, and counts them by operation and status.

    Every second valid request uses an existing session.
    """

    def __init__(self, cloud: LocalCloud) -> None:
        self._schema: Any = schemathesis.openapi.from_url(f"{cloud.http}/openapi.json")
        self._http = requests.Session()
        self._api = httpx.Client(base_url=f"{cloud.http}/api/v1", timeout=40)
        self._numbers = itertools.count(1)
        self._existing = ""
        self.answers: Counter[tuple[str, str, int]] = Counter()

    def fuzz(self, method: str, path: str, *, valid: bool, examples: int) -> None:
        """Send so many requests that are valid, or so many that are not, to one operation."""
        mode = GenerationMode.POSITIVE if valid else GenerationMode.NEGATIVE
        operation = self._schema[path][method]

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        )
        def send(case: Case[Any]) -> None:
            if mode is GenerationMode.POSITIVE and next(self._numbers) % 2:
                self._aim(case)
            self._judge(case, mode)

        try:
            send()
        except Unsatisfiable:  # This operation has no invalid requests.
            assert mode is GenerationMode.NEGATIVE

    def _aim(self, case: Case[Any]) -> None:
        for place in (case.path_parameters, case.query, case.body):
            if isinstance(place, dict) and "session_id" in place:
                place["session_id"] = self._session()

    def _session(self) -> str:
        if not self._existing or self._api.get(f"/sessions/{self._existing}").status_code != 200:
            self._existing = self._api.post("/sessions", json={}).json()["session_id"]
        return self._existing

    def _judge(self, case: Case[Any], mode: GenerationMode) -> None:
        response = case.call(session=self._http, timeout=40)
        self.answers[case.method, case.path, response.status_code] += 1
        checks = [*ALWAYS, *([negative_data_rejection] if mode is GenerationMode.NEGATIVE else [])]
        # It would check each event of a stream against the schema, which is for the whole text.
        if not response.headers["content-type"][0].startswith("text/event-stream"):
            checks.append(response_schema_conformance)
        case.validate_response(response, checks=checks)
        if response.status_code >= 500:
            assert response.json()["error"]["code"] in FAILURES, response.text
