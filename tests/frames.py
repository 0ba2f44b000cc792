"""Checks the frames that a test sends and receives against the schemas of `docs/schemas/frames.json`.

The published schemas are open, because a later version may send more; here they are closed: what is not documented is
not sent.
"""

from functools import cache
from typing import Any

import jsonschema_rs

from infra.docs.schemas import bundle

DOCUMENT = bundle()


def check_received(frame: dict[str, Any]) -> None:
    """Raises AssertionError for a frame that the server must not send."""
    name = frame.get("type", "GatewayErrorFrame")
    _check("ServerFrame", name, frame, closed=True)


def check_sent(frame: dict[str, Any]) -> None:
    """Raises AssertionError for a frame that is invalid for its schema."""
    name = "ReferencedFrame" if frame.get("payload_ref") is not None else frame["type"]
    _check("ClientFrame", name, frame, closed=False)


def validator_of(direction: str, name: str, *, closed: bool) -> jsonschema_rs.Validator | None:
    """The validator for a frame by its type or its definition's name; None if it is not documented."""
    return _validators(direction, closed).get(name)


def _check(direction: str, name: str, frame: dict[str, Any], *, closed: bool) -> None:
    validator = validator_of(direction, name, closed=closed)
    assert validator is not None, f"{name} has no model: no {direction}"
    wrong = [
        f"{'.'.join(map(str, error.instance_path)) or name}: {error.message}" for error in validator.iter_errors(frame)
    ]
    assert not wrong, f"{frame} does not match its model: {wrong}"


@cache
def _validators(direction: str, closed: bool) -> dict[str, jsonschema_rs.Validator]:
    definitions = {name: _closed(schema) if closed else schema for name, schema in DOCUMENT["$defs"].items()}
    names = [branch["$ref"].rsplit("/", 1)[1] for branch in definitions[direction]["oneOf"]]
    types = {definitions[name]["properties"]["type"]["const"]: name for name in names}
    types |= {name: name for name in ("GatewayErrorFrame", "ReferencedFrame")}
    return {
        frame_type: jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": definitions})
        for frame_type, name in types.items()
    }


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"additionalProperties": False, **schema} if "properties" in schema else schema
