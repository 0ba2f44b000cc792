"""Reading CloudFormation values without resolving them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_WITH_POLICIES = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy")


def branches(value: Any) -> Iterator[Any]:
    """The items of a list or the single value, of both branches of every `Fn::If`, without `AWS::NoValue`."""
    if isinstance(value, list):
        for item in value:
            yield from branches(item)
    elif isinstance(value, dict) and set(value) == {"Fn::If"}:
        yield from branches(value["Fn::If"][1:])
    elif not (isinstance(value, dict) and value.get("Ref") == "AWS::NoValue"):
        yield value


def text(value: Any) -> str:
    """A value as `Fn::Sub` would write it: `arn:${AWS::Partition}:…`, `${Table.Arn}`."""
    if not isinstance(value, dict):
        return str(value)
    if "Fn::Sub" in value:
        template = value["Fn::Sub"]
        if isinstance(template, str):
            return template
        written, variables = template
        for name, given in variables.items():
            written = written.replace(f"${{{name}}}", text(given))
        return str(written)
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return str(separator).join(text(part) for part in parts)
    if "Fn::GetAtt" in value:
        attribute = value["Fn::GetAtt"]
        return f"${{{attribute if isinstance(attribute, str) else '.'.join(attribute)}}}"
    return f"${{{value.get('Ref', '')}}}"


def target(value: Any) -> str:
    """The logical id that a `Ref` or `Fn::GetAtt` names, else an empty string."""
    named = re.fullmatch(r"\$\{(\w+)(?:\.\w+)*\}", text(value)) if isinstance(value, dict) else None
    return named[1] if named else ""


def references(value: Any) -> Iterator[str]:
    """The names that `Ref`, `Fn::GetAtt` and `Fn::Sub` in a value refer to: logical ids, parameters and others."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if {"Ref", "Fn::GetAtt", "Fn::Sub"} & value.keys():
            yield from re.findall(r"\$\{(\w+)", text(value))
        for item in value.values():
            yield from references(item)


def decided(value: Any, condition: str, *, holds: bool) -> Any:
    """`value`, such as a template's resources, if `condition` holds or not: without what that leaves out."""
    if isinstance(value, list):
        return [decided(item, condition, holds=holds) for item in _kept(value, condition, holds)]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Fn::If"} and value["Fn::If"][0] == condition:
        return decided(value["Fn::If"][1 if holds else 2], condition, holds=holds)
    return {
        name: decided(one, condition, holds=holds)
        for name, one in value.items()
        if _kept([one], condition, holds)
        and (holds or not isinstance(one, dict) or "Type" not in one or one.get("Condition") != condition)
    }


def _kept(values: list[Any], condition: str, holds: bool) -> list[Any]:
    """Without those that are `AWS::NoValue` in this case."""
    return [
        value
        for value in values
        if not isinstance(value, dict)
        or value.get("Fn::If", ["", ""])[0] != condition
        or value["Fn::If"][1 if holds else 2] != {"Ref": "AWS::NoValue"}
    ]


def statements(resources: Mapping[str, Any]) -> Iterator[tuple[list[str | int], dict[str, Any]]]:
    """Every Allow statement of every role and policy, with the path of its policy."""
    for name, resource in resources.items():
        if resource["Type"] in _WITH_POLICIES:
            properties = resource.get("Properties", {})
            documents = [policy.get("PolicyDocument", {}) for policy in branches(properties.get("Policies", []))]
            for document in (*documents, properties.get("PolicyDocument", {})):
                for statement in branches(document.get("Statement", [])):
                    if statement.get("Effect") == "Allow":
                        yield ["Resources", name], statement
