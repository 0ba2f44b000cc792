"""What each deployed function may do, read from the translated template."""

from functools import cache
from pathlib import Path
from typing import Any

from infra.intrinsics import branches, statements, target, text
from infra.translate import translate_file

TEMPLATE = Path(__file__).resolve().parents[1] / "template.yaml"
Resources = dict[str, dict[str, Any]]
Grants = dict[str, set[tuple[str, str]]]


@cache
def resources() -> Resources:
    found: Resources = translate_file(TEMPLATE)["Resources"]
    return found


def of_type(kind: str) -> Resources:
    return {name: resource for name, resource in resources().items() if resource["Type"] == kind}


@cache
def grants() -> Grants:
    """Folder of the function → (action, resource)."""
    roles = {target(one["Properties"]["Role"]): _folder(one) for one in of_type("AWS::Lambda::Function").values()}
    found: Grants = {folder: set() for folder in roles.values()}
    for (_, name), statement in statements(resources()):
        resource = resources()[str(name)]
        owners = [name]
        if resource["Type"] != "AWS::IAM::Role":
            owners = [target(role) for role in branches(resource["Properties"]["Roles"])]
        for action in branches(statement["Action"]):
            for granted in branches(statement["Resource"]):
                for owner in owners:
                    if owner in roles:
                        found[roles[owner]].add((action, text(granted)))
    return found


def _folder(function: dict[str, Any]) -> str:
    """functions/tool_result → the function's name ends in tool-result."""
    written: str = text(function["Properties"]["FunctionName"])
    return written.removeprefix("${AWS::StackName}-").replace("-", "_")
