"""SAM's translation of the template, as CloudFormation sees it, made without an account.

Some mistakes only show in the translation, such as a dependency cycle through a generated role.
"""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator import translator as sam

from infra.sam_template import parse

_REGION = "us-east-1"

# Its templates of policies are checked against their schema for each translation, which is half of what that takes.
sam.make_policy_template_for_function_plugin = cache(sam.make_policy_template_for_function_plugin)


class _AnyManagedPolicy(dict[str, str]):
    """The ARN of any managed policy by name. SAM reads the real map from an account."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"arn:aws:iam::aws:policy/{name}"

    def get(self, name: str, default: Any = None) -> str:
        return self[name]


@cache
def _session() -> boto3.Session:
    return boto3.Session(region_name=_REGION)


def translate(template: dict[str, Any]) -> dict[str, Any]:
    """Translate `template` into CloudFormation. Raises samtranslator's InvalidDocumentException."""
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        for key in ("CodeUri", "ContentUri", "DefinitionUri"):
            if isinstance(properties.get(key), str):  # `sam package` uploads local folders, and nested templates.
                properties[key] = f"s3://packaged/{properties[key]}"
        if resource["Type"] == "AWS::CloudFormation::Stack":
            properties["TemplateURL"] = f"https://packaged.s3.amazonaws.com/{properties['TemplateURL']}"
    translator = sam.Translator(_AnyManagedPolicy(), Parser(), boto_session=_session())
    defaults = {
        name: parameter["Default"]
        for name, parameter in template.get("Parameters", {}).items()
        if "Default" in parameter
    }
    translated: dict[str, Any] = translator.translate(
        sam_template=template, parameter_values={**defaults, "AWS::Region": _REGION, "AWS::Partition": "aws"}
    )
    return translated


def translate_file(path: Path) -> dict[str, Any]:
    """`translate` for a YAML file."""
    return translate(parse(path))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(translate_file(Path(sys.argv[1])), indent=2) + "\n")
