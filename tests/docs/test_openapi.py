"""The OpenAPI document of the REST API: valid, and of everything that is served."""

import json
from pathlib import Path

import jsonschema_rs
from codelab.rest.app import create_app
from fastapi.routing import APIRoute
from schemathesis.specs.openapi.definitions import OPENAPI_31  # the specification's own schema

PUBLISHED = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text(encoding="utf-8"))


def test_the_published_document_is_valid_by_the_specifications_schema() -> None:
    assert [error.message for error in jsonschema_rs.validator_for(OPENAPI_31).iter_errors(PUBLISHED)] == []


def test_every_route_is_in_it() -> None:
    served = {
        (route.path, method.lower())
        for route in create_app().routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    documented = {(path, method) for path, methods in PUBLISHED["paths"].items() for method in methods}
    assert documented >= {found for found in served if found[0] not in ("/docs", "/openapi.json")}


def test_every_operation_says_what_it_does_and_how_it_refuses() -> None:
    for path, methods in PUBLISHED["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), (method, path)
            assert operation["responses"], (method, path)
