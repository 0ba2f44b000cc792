"""The REST API's OpenAPI document is valid and describes every operation."""

import json
import re
from pathlib import Path

import jsonschema_rs
from schemathesis.specs.openapi.definitions import OPENAPI_31  # The specification's own schema.

from infra.docs.named_schemas import anonymous

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


def test_every_schema_has_a_name() -> None:
    components = PUBLISHED["components"]["schemas"]
    assert anonymous(components) == []
    assert {name: schema["title"] for name, schema in components.items()} == {name: name for name in components}
    assert [name for name in components if not name.isalnum()] == []


def test_operations_are_named_as_functions_are() -> None:
    names = [operation["operationId"] for methods in PUBLISHED["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){1,2}", name)] == []
