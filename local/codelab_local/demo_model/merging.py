"""Two JSON Schemas as one that asks for both."""

import math
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TIGHTEN: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"), min),
}


def merge(left: Schema, right: Schema) -> dict[str, Any]:
    """One schema that asks for both, as far as that can be said in one object."""
    merged = dict(left)
    for key, value in right.items():
        if key not in merged:
            merged[key] = value
        elif key in _TIGHTEN:
            merged[key] = _TIGHTEN[key](merged[key], value)
        elif key == "required":
            merged[key] = list(dict.fromkeys([*merged[key], *value]))
        elif key in {"properties", "patternProperties", "$defs"}:
            merged[key] = {
                **merged[key],
                **{name: both(merged[key][name], sub) if name in merged[key] else sub for name, sub in value.items()},
            }
        elif key == "enum":
            merged[key] = [item for item in merged[key] if item in value]
        elif key == "type":
            merged[key] = _common_types(merged[key], value)
        elif key in {"items", "additionalProperties", "contains", "propertyNames"}:
            merged[key] = both(merged[key], value)
        elif key in {"anyOf", "oneOf", "allOf", "not", "if"}:
            merged["allOf"] = [*merged.get("allOf", ()), {key: value}]
        elif key == "multipleOf":
            merged[key] = _common_multiple(merged[key], value)
        else:
            merged[key] = value
    return merged


def both(left: Any, right: Any) -> Any:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return merge(left, right)
    if left is False or right is False:
        return False
    return right if left is True else left


def _common_types(left: Any, right: Any) -> Any:
    lefts = [left] if isinstance(left, str) else list(left)
    rights = [right] if isinstance(right, str) else list(right)
    common = [kind for kind in lefts if kind in rights]
    if ("integer" in rights and "number" in lefts) or ("integer" in lefts and "number" in rights):
        common.append("integer")
    return common or rights


def _common_multiple(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return math.lcm(left, right)
    return max(left, right)
