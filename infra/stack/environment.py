"""How large the functions' environments will be: Lambda refuses more than 4 KB, in the middle of a deployment."""

import re
from collections.abc import Mapping
from typing import Any

from infra.intrinsics import branches, decided, text

_MOST_BYTES = 4_096
#: Of what only AWS knows: the longest ARN or address of a resource that a variable has.
_RESOURCE_BYTES = 110
#: The longest that AWS has.
_PSEUDO = {"AWS::Region": "ap-northeast-1", "AWS::URLSuffix": "amazonaws.com.cn", "AWS::Partition": "aws-us-gov"}
_REFERENCE = re.compile(r"\$\{([\w:.]+)\}")
_NAMED = 3
_STORES = "LargeSettings"
#: What it keeps out of the environment.
_STORED = ("LlmPrices", "LlmCapabilities", "PlanLimits")


def problem(template: Mapping[str, Any], values: Mapping[str, str], stack_name: str) -> str:
    """What to do if a function's environment does not fit; empty if all do. values: all parameters."""
    known = {**_PSEUDO, **values, "AWS::StackName": stack_name}
    is_stored = values[_STORES] == "true"
    largest, size = _largest(template, known, is_stored)
    if size <= _MOST_BYTES:
        return ""
    said = f"the environment of {largest} would have about {size:,} bytes, and Lambda allows {_MOST_BYTES:,}: "
    listed = f"{', '.join(_STORED[:-1])} and {_STORED[-1]}"
    if not is_stored and _largest(template, known, True)[1] <= _MOST_BYTES:
        return said + f"set {_STORES}=true, which keeps {listed} in Secrets Manager"
    counted = {name: value for name, value in values.items() if not is_stored or name not in _STORED}
    names = sorted(counted, key=lambda name: len(counted[name].encode()), reverse=True)[:_NAMED]
    longest = ", ".join(f"{name} ({len(counted[name].encode()):,})" for name in names)
    return said + f"shorten the longest parameters, {longest}"


def _largest(template: Mapping[str, Any], known: Mapping[str, str], is_stored: bool) -> tuple[str, int]:
    """The function with the largest environment, and its bytes."""
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    sizes: dict[str, int] = {}
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            own = resource["Properties"].get("Environment", {}).get("Variables", {})
            variables = decided({**shared, **own}, "StoresSettings", holds=is_stored)
            sizes[name] = sum(_bytes(variable, value, known) for variable, value in variables.items())
    largest = max(sizes, key=lambda name: sizes[name])
    return largest, sizes[largest]


def _bytes(variable: str, value: Any, known: Mapping[str, str]) -> int:
    """Of a variable, its name included; of a condition's branches the longer."""
    return len(variable) + max((len(_resolved(one, known).encode()) for one in branches(value)), default=0)


def _resolved(value: Any, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: known.get(found[1], "x" * _RESOURCE_BYTES), text(value))
