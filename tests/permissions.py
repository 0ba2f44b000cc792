"""What each deployed function may do, read from the translated template."""

from functools import cache
from pathlib import Path
from typing import Any

from infra.intrinsics import branches, decided, statements, target, text
from infra.sam_template import parse
from infra.translate import translate

TEMPLATE = Path(__file__).resolve().parents[1] / "template.yaml"
Resources = dict[str, dict[str, Any]]
Grants = dict[str, set[tuple[str, str]]]


@cache
def resources(*, snapshots: bool = False, large_settings: bool = False) -> Resources:
    """The translated template's resources with SnapStart or without, and with LargeSettings or without."""
    found: Resources = decided(_translated(), "StartsFromSnapshots", holds=snapshots)
    return dict(decided(found, "StoresSettings", holds=large_settings))


@cache
def _translated() -> Resources:
    return translated()


def translated(**parameters: str) -> Resources:
    """The resources that SAM makes of the template with these values of parameters."""
    template = parse(TEMPLATE)
    for name, value in parameters.items():
        template["Parameters"][name]["Default"] = value
    found: Resources = translate(template)["Resources"]
    return found


def of_type(kind: str, *, snapshots: bool = False) -> Resources:
    found = resources(snapshots=snapshots)
    return {name: resource for name, resource in found.items() if resource["Type"] == kind}


@cache
def grants(*, snapshots: bool = False, large_settings: bool = False) -> Grants:
    """Folder of the function → (action, resource)."""
    every = resources(snapshots=snapshots, large_settings=large_settings)
    functions = of_type("AWS::Lambda::Function", snapshots=snapshots).values()
    roles = {target(one["Properties"]["Role"]): _folder(one) for one in functions}
    found: Grants = {folder: set() for folder in roles.values()}
    for (_, name), statement in statements(every):
        resource = every[str(name)]
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
