"""The REST API's OpenAPI document is valid and describes every operation."""

import json
from pathlib import Path

import jsonschema_rs
from schemathesis.specs.openapi.definitions import OPENAPI_31  # The specification's own schema.

PUBLISHED = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text(encoding="utf-8"))


def test_the_document_is_valid_for_the_official_schema() -> None:
    assert [error.message for error in jsonschema_rs.validator_for(OPENAPI_31).iter_errors(PUBLISHED)] == []


def test_every_operation_has_a_description_and_its_errors() -> None:
    for path, methods in PUBLISHED["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), (method, path)
            assert any(status.startswith("2") for status in operation["responses"]), (method, path)
            is_public = path in ("/health", "/client-config")
            assert is_public or any(status.startswith("4") for status in operation["responses"]), (method, path)
