"""One schema-enforced Request over HTTP."""

from typing import Any

import httpx
import pytest

from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.rest.test_sessions import error_of, refused

PROPERTIES = {"fruit": {"type": "string"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["fruit"], "additionalProperties": False}


def request(marker: str, **fields: Any) -> dict[str, Any]:
    return {"context": [{"role": "user", "content": f"Name a fruit {marker}"}], "schema": SCHEMA, **fields}


def test_a_request_gets_an_answer_valid_for_its_schema(api: httpx.Client, model: ScriptedModel) -> None:
    marker = model.script("fruit", Says(raw='{"fruit": "apple"}'))
    answer = api.post("/requests", json=request(marker))
    assert answer.status_code == 200
    assert answer.json()["solution"] == {"fruit": "apple"}
    assert answer.json()["strategy"]
    assert answer.json()["usage"]


@pytest.mark.parametrize("status", [400, 401])
def test_a_failing_model_is_an_llm_error(api: httpx.Client, model: ScriptedModel, status: int) -> None:
    marker = model.script(f"refused-{status}", Says(status=status))
    answer = api.post("/requests", json=request(marker))
    details = refused(answer, 502, "LLM_ERROR")
    assert (details["reason"], details["status"]) == ("transport", status)


@pytest.mark.parametrize(
    "fields",
    [{"schema": {"type": "nothing"}}, {"config": {"temperature": 9}}, {"context": ["?"]}, {"config": {"x": 1}}],
)
def test_errors_in_a_request_are_named(api: httpx.Client, fields: dict[str, Any]) -> None:
    answer = api.post("/requests", json=request("", **fields))
    refused(answer, 422, "INVALID_ARGUMENTS")
    assert next(iter(fields)) in error_of(answer)["message"]
