"""What each deployed function may do, read from the translated template."""

from functools import cache
from pathlib import Path
from typing import Any

from cfnlint.template import Template

from infra.intrinsics import branches, statements, target, text
from infra.translate import translate_file

TEMPLATE = Path(__file__).resolve().parents[1] / "template.yaml"
Grants = dict[str, set[tuple[str, str]]]


@cache
def template() -> Template:
    return Template("template.yaml", translate_file(TEMPLATE), ["us-east-1"])


def functions() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = template().get_resources("AWS::Lambda::Function")
    return found


def _folder(name: str) -> str:
    """functions/tool_result → the function's name ends in tool-result."""
    written: str = text(functions()[name]["Properties"]["FunctionName"])
    return written.removeprefix("${AWS::StackName}-").replace("-", "_")


@cache
def grants() -> Grants:
    """Folder of the function → (action, resource)."""
    roles = {target(resource["Properties"]["Role"]): _folder(name) for name, resource in functions().items()}
    found: Grants = {folder: set() for folder in roles.values()}
    for path, statement in statements(template()):
        resource = template().get_resources()[path[1]]
        owners = [path[1]]
        if resource["Type"] != "AWS::IAM::Role":
            owners = [target(role) for role in branches(resource["Properties"]["Roles"])]
        for action in branches(statement["Action"]):
            for granted in branches(statement["Resource"]):
                for owner in owners:
                    if owner in roles:
                        found[roles[owner]].add((action, text(granted)))
    return found
