"""How large the functions' environments will be: Lambda refuses more than 4 KB, in the middle of a deployment."""

import re
from collections.abc import Mapping
from typing import Any

from infra.intrinsics import branches, text

_MOST_BYTES = 4_096
#: Of what only AWS knows: the longest ARN or address of a resource that a variable has.
_RESOURCE_BYTES = 110
#: The longest that AWS has.
_PSEUDO = {"AWS::Region": "ap-northeast-1", "AWS::URLSuffix": "amazonaws.com.cn", "AWS::Partition": "aws-us-gov"}
_REFERENCE = re.compile(r"\$\{([\w:.]+)\}")
_NAMED = 3


def problem(template: Mapping[str, Any], values: Mapping[str, str], stack_name: str) -> str:
    """What to do if a function's environment does not fit; empty if all do. values: all parameters."""
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    resolved = {**_PSEUDO, **values, "AWS::StackName": stack_name}
    sizes: dict[str, int] = {}
    for name, resource in template["Resources"].items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        own = resource["Properties"].get("Environment", {}).get("Variables", {})
        sizes[name] = sum(_bytes(variable, value, resolved) for variable, value in {**shared, **own}.items())
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] <= _MOST_BYTES:
        return ""
    names = sorted(values, key=lambda name: len(values[name].encode()), reverse=True)[:_NAMED]
    longest = ", ".join(f"{name} ({len(values[name].encode()):,})" for name in names)
    return (
        f"the environment of {largest} would have about {sizes[largest]:,} bytes, and Lambda allows {_MOST_BYTES:,}: "
        f"shorten the longest parameters, {longest}"
    )


def _bytes(variable: str, value: Any, known: Mapping[str, str]) -> int:
    """Of a variable, its name included; of a condition's branches the longer."""
    return len(variable) + max((len(_resolved(one, known).encode()) for one in branches(value)), default=0)


def _resolved(value: Any, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: known.get(found[1], "x" * _RESOURCE_BYTES), text(value))
