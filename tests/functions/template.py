"""The real template, as far as a single function needs it: the table, and each function's environment."""

import re
from pathlib import Path
from typing import Any

from infra.sam_template import parse

ROOT = Path(__file__).parents[2]
REGION = "eu-central-1"

#: What `AWS::NoValue` is: its property, or its item of a list, does not exist.
_NOTHING = object()
_PSEUDO = {
    "AWS::Region": REGION,
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "codelab",
    "PayloadBucket": "payloads",  # a bucket's name has no capitals
}


class Template:
    """`template.yaml` with its parameters' defaults; a resource's Ref is its logical id."""

    def __init__(self) -> None:
        self._source = parse(ROOT / "template.yaml")
        self._resources: dict[str, Any] = self._source["Resources"]

    def resource(self, logical_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._resources[logical_id]["Properties"]
        return found

    def table(self) -> dict[str, Any]:
        """The parameters of CreateTable; time to live and the like are set apart from it."""
        wanted = {"BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes"}
        properties = {name: value for name, value in self.resource("Table").items() if name in wanted}
        return {"TableName": "Table", **self.resolve(properties)}

    def environment(self, folder: str) -> dict[str, str]:
        """The variables of the function whose code is `functions/{folder}`."""
        (function,) = [
            resource["Properties"]
            for resource in self._resources.values()
            if resource["Type"] == "AWS::Serverless::Function"
            and resource["Properties"]["CodeUri"] == f"functions/{folder}"
        ]
        everyone = self._source["Globals"]["Function"]["Environment"]["Variables"]
        own = function.get("Environment", {}).get("Variables", {})
        return {name: str(self.resolve(value)) for name, value in {**everyone, **own}.items()}

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [resolved for item in value if (resolved := self.resolve(item)) is not _NOTHING]
        if not isinstance(value, dict):
            return value
        match value:
            case {"Ref": str(name)}:
                return self._ref(name)
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: str(self._ref(found[1])), text)
            case {"Fn::If": [str(condition), yes, no]}:
                return self.resolve(yes if self.resolve(self._source["Conditions"][condition]) else no)
            case {"Condition": str(name), **others} if not others:
                return self.resolve(self._source["Conditions"][name])
            case {"Fn::And": [*conditions]}:
                return all(self.resolve(condition) for condition in conditions)
            case {"Fn::Not": [condition]}:
                return not self.resolve(condition)
            case {"Fn::Equals": [left, right]}:
                return self.resolve(left) == self.resolve(right)
        return {name: resolved for name, item in value.items() if (resolved := self.resolve(item)) is not _NOTHING}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NOTHING
        if name in _PSEUDO:
            return _PSEUDO[name]
        parameter = self._source["Parameters"].get(name)
        return parameter["Default"] if parameter else name
