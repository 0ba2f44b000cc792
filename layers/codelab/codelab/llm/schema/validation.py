"""Validation against the original schema, with errors that a model can act on.

The dialect is the one that `$schema` names, else 2020-12. A schema without `$schema` that is only valid in an older
draft (array `items`, boolean `exclusiveMinimum`) is read as that draft. Nothing is fetched: a reference to another
document makes the schema invalid. Patterns are matched in linear time, and those with look-around or back references
with bounded backtracking (`budget` does not accept them from outside).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from codelab.llm.errors import InvalidRequest, json_pointer

_OLDER_VALIDATORS = (jsonschema_rs.Draft7Validator, jsonschema_rs.Draft4Validator)
# Limits only patterns that need backtracking.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
_MAX_ERRORS = 8
_MAX_VALUE = 200


def compile_validator(schema: Any) -> jsonschema_rs.Validator:
    """The validator of a schema. Raises InvalidRequest with the pointer of the invalid value."""
    if not isinstance(schema, (dict, bool)):
        raise InvalidRequest("the schema is neither an object nor a boolean", "/schema")
    if isinstance(schema, dict) and isinstance(schema.get("$schema"), str) and not _is_known(schema["$schema"]):
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    try:
        return jsonschema_rs.validator_for(schema, retriever=_no_retrieval, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        if isinstance(schema, dict) and "$schema" not in schema:
            for validator_class in _OLDER_VALIDATORS:
                try:
                    return validator_class(schema, retriever=_no_retrieval, pattern_options=_PATTERNS)
                except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
                    continue
        schema_pointer = json_pointer(*(getattr(error, "instance_path", None) or ()))
        message = getattr(error, "message", None) or str(error)
        raise InvalidRequest(f"the schema is not valid: {_short(str(message))}", f"/schema{schema_pointer}") from error


def _is_known(dialect: str) -> bool:
    """Whether a `$schema` names a published draft. Any other is read as the newest."""
    return re.match(r"https?://json-schema\.org/(draft-0[467]|draft/20(19-09|20-12))/schema#?$", dialect) is not None


def _no_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is another document, and nothing is fetched")


def explain(validator: jsonschema_rs.Validator, value: Any) -> list[str]:
    """Why a value is invalid, one sentence per error. Empty if it is valid.

    The errors of an `anyOf` or `oneOf` are those of the branch that the model meant: the one whose constants (`_tool`,
    `type`, …) match the value, else the one with the fewest errors.
    """
    messages: list[str] = []
    for path, message in _errors(validator, value):
        line = f"{path or 'the answer'}: {message}"
        if line not in messages:
            messages.append(line)
        if len(messages) == _MAX_ERRORS:
            break
    return messages


def _errors(validator: jsonschema_rs.Validator, value: Any) -> Iterator[tuple[str, str]]:
    for error in validator.iter_errors(value):
        yield from _phrased(error)


def _phrased(error: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    kind = error.kind
    path = json_pointer(*error.instance_path)
    branches = getattr(kind, "context", None)
    if branches and depth < 6:
        branch_errors = _intended_errors(branches)
        if branch_errors:
            for branch_error in branch_errors:
                yield from _phrased(branch_error, depth + 1)
            return
    yield path, _short(error.message)


def _intended_errors(branches: list[list[Any]]) -> list[Any]:
    """The errors of the branch that the model meant."""
    min_depth = min((len(error.instance_path) for errors in branches for error in errors), default=0)

    def distance(errors: list[Any]) -> tuple[int, int, int]:
        wrong_type = wrong_constant = 0
        for error in errors:
            name = type(error.kind).__name__
            if len(error.instance_path) <= min_depth:
                wrong_type += name.endswith("Type")
            wrong_constant += "Constant" in name or "Enum" in name
        return wrong_type, wrong_constant, len(errors)

    return min((errors for errors in branches if errors), key=distance, default=[])


def _short(text: str) -> str:
    return text if len(text) <= 2 * _MAX_VALUE else f"{text[:_MAX_VALUE]} … {text[-_MAX_VALUE // 2 :]}"


def repair_message(errors: list[str]) -> str:
    """The message to the model about an invalid answer."""
    return (
        "That answer is not valid:\n"
        + "\n".join(f"- {line}" for line in errors)
        + "\nGive the whole answer again, corrected. Change nothing else."
    )


def properties_of(schema: Any) -> Mapping[str, Any]:
    """The properties of a plain object schema. Empty for any other."""
    if isinstance(schema, dict) and not any(word in schema for word in ("$ref", "allOf", "anyOf", "oneOf", "if")):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            return properties
    return {}
