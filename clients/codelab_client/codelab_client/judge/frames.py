"""The frames of the protocol: how they are checked, and what the judge answers by itself."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator

_SETTINGS = {"hello", "session_config", "refresh_token"}


@cache
def _schemas() -> dict[str, Any]:
    """Written by `make docs`: the definitions of docs/schemas/frames.json."""
    document: dict[str, Any] = json.loads(resources.files(__package__).joinpath("frames.json").read_text("utf-8"))
    return document


@cache
def _validators(sender: str) -> dict[str, Draft202012Validator]:
    """A validator for each type of a frame of `ClientFrame` or `ServerFrame`, and for those without a type."""
    definitions = _schemas()["$defs"]
    names = [branch["$ref"].rsplit("/", 1)[1] for branch in definitions[sender]["oneOf"]]
    types = {definitions[name]["properties"]["type"]["const"]: name for name in names}
    types[""] = "ReferencedFrame" if sender == "ClientFrame" else "GatewayErrorFrame"
    return {
        frame_type: Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
        for frame_type, name in types.items()
    }


def mistakes(message: str | bytes, sender: str = "ClientFrame") -> tuple[dict[str, Any] | None, list[str]]:
    """A message as a frame, None if it is not a JSON object, and what is wrong with it.

    sender: `ClientFrame` or `ServerFrame`. A server may send frames of a later version, a client only those it knows.
    """
    if isinstance(message, bytes):
        return None, ["binary data"]
    try:
        frame = json.loads(message)
    except ValueError as error:
        return None, [f"not JSON: {error}"]
    if not isinstance(frame, dict):
        return None, ["not a JSON object"]
    is_client = sender == "ClientFrame"
    has_no_type = frame.get("payload_ref") is not None if is_client else "type" not in frame
    validator = _validators(sender).get("" if has_no_type else str(frame.get("type")))
    if validator is None:
        return frame, [f"unknown type {frame.get('type')!r}"] * is_client
    errors = list(validator.iter_errors(frame))
    return frame, [f"{'.'.join(map(str, error.absolute_path)) or 'frame'}: {error.message[:200]}" for error in errors]


@cache
def extensions() -> frozenset[str]:
    """The types of the server's frames that only a connection with extensions gets."""
    definitions = _schemas()["$defs"]
    frames = (definitions[branch["$ref"].rsplit("/", 1)[1]] for branch in definitions["ServerFrame"]["oneOf"])
    return frozenset(frame["properties"]["type"]["const"] for frame in frames if frame.get("x-extension"))


def example(definition: str) -> dict[str, Any]:
    """The first documented example of a frame."""
    frame: dict[str, Any] = dict(_schemas()["$defs"][definition]["examples"][0])
    return frame


def answer_to(frame: Mapping[str, Any], last_seq: int, pending: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The usual reply to a frame, or the `ack` that its `request_id` asks for; None if there is none."""
    request_id = {"request_id": frame["request_id"]} if frame.get("request_id") else {}
    frame_type = frame.get("type")
    if frame_type in _SETTINGS:
        state = {"session_id": "judge", "agent": "coder", "status": "idle", "title": "", "settings": {}}
        lists: dict[str, Any] = {"pending_calls": pending, "queued": [], "plan": []}
        info = {name: value for name, value in example("SessionInfoFrame").items() if name != "turn_id"}
        return {**info, **state, **lists, "last_seq": last_seq, **request_id}
    if frame_type == "ping":
        return {"type": "pong", **request_id}
    if frame_type == "rules":
        return {"type": "rules", "rules": [], **request_id}
    if frame_type == "context_update":
        return {**example("ContextUpdatedFrame"), **request_id}
    if frame_type == "upload_request":
        return {**error("INVALID_ARGUMENTS", "The judge takes no uploads"), **request_id}
    return {"type": "ack", "outcome": "accepted", **request_id} if request_id else None


def error(code: str, text: str, *, retryable: bool = False, **fields: Any) -> dict[str, Any]:
    """An `error` that refuses a frame."""
    words = {"content": text, "message": text, "error_code": code, "details": {}, "retryable": retryable}
    return {"type": "error", **words, **fields}
