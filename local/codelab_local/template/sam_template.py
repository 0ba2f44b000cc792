"""Reads the SAM template: finds each function's source folder, and makes a copy for the emulator.

CloudFormation does not accept a local folder as `CodeUri`; `sam deploy` uploads a zip first. The local cloud runs the
source tree in place, so the copy refers to a tiny object in the emulator's S3 instead.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from codelab_local.host.errors import StartError

CODE_BUCKET = "codelab-local-code"
CODE_KEY = "source-is-run-in-place.zip"
TEMPLATE_KEY = "template.json"
_CODE_OBJECT = f"s3://{CODE_BUCKET}/{CODE_KEY}"

#: Services that every deployment needs.
_ALWAYS = {"apigateway", "cloudformation", "events", "lambda", "s3", "scheduler"}
#: Resource types whose second part is not the lower-case name of the service.
_SERVICES = {
    "ApiGatewayV2": "apigateway",
    "CloudWatch": "monitoring",
    "Serverless": "lambda",
    "StepFunctions": "states",
}

_FUNCTION = "AWS::Serverless::Function"
_LAYER = "AWS::Serverless::LayerVersion"


@dataclass(frozen=True)
class Source:
    """A function's folder, and the folders that its layers add to the import path."""

    folder: Path
    layers: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The folder's name, which logs show for the function."""
        return self.folder.name


@dataclass(frozen=True)
class Template:
    """A template: `body` is for `CreateStack`, `sources` are by logical id.

    `services` are the AWS services of its resources, by endpoint name (`dynamodb`, `s3`).
    """

    body: str
    sources: dict[str, Source]
    parameters: dict[str, Any]
    services: frozenset[str]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML with CloudFormation's short intrinsics (`!Ref`, `!Sub`, …)."""


def _intrinsic(loader: Any, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _intrinsic)
# Keep a bare date such as AWSTemplateFormatVersion: 2010-09-09 a string.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_template(path: Path) -> Template:
    """Read the template at `path`. Raises :class:`StartError` if it is invalid."""
    try:
        document = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise StartError(f"template {path} is not valid YAML: {problem}{place}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read template {path}: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise StartError(f"template {path} has no Resources: is it a SAM template?")
    sources = _take_sources(document, path.parent)
    if not sources:
        raise StartError(f"template {path} has no {_FUNCTION} with a local CodeUri: there is nothing to run")
    body = json.dumps(document, separators=(",", ":"))
    return Template(body, sources, document.get("Parameters") or {}, _services(document["Resources"]))


def _services(resources: dict[str, Any]) -> frozenset[str]:
    types = [str(resource.get("Type")) for resource in resources.values() if isinstance(resource, dict)]
    namespaces = {parts[1] for parts in (kind.split("::") for kind in types) if len(parts) == 3}
    return frozenset(_ALWAYS | {_SERVICES.get(name, name.lower()) for name in namespaces})


def _take_sources(document: dict[str, Any], root: Path) -> dict[str, Source]:
    """Find every local folder in `document`, and replace it with the object in S3."""
    resources: dict[str, Any] = document["Resources"]
    global_properties = (document.get("Globals") or {}).get("Function") or {}
    layers: dict[str, tuple[Path, ...]] = {}
    for logical_id, resource in resources.items():
        if isinstance(resource, dict) and resource.get("Type") == _LAYER:
            properties = resource.get("Properties") or {}
            folder = _local_folder(properties.get("ContentUri"), root, logical_id)
            if folder is not None:
                properties["ContentUri"] = _CODE_OBJECT
                layers[logical_id] = _layer_paths(folder)
    sources: dict[str, Source] = {}
    for logical_id, resource in resources.items():
        if not isinstance(resource, dict) or resource.get("Type") != _FUNCTION:
            continue
        properties = resource.setdefault("Properties", {})
        if "InlineCode" in properties or "ImageUri" in properties:
            continue
        folder = _local_folder(properties.get("CodeUri", global_properties.get("CodeUri")), root, logical_id)
        if folder is not None:
            properties["CodeUri"] = _CODE_OBJECT
            all_layers = [*(global_properties.get("Layers") or []), *(properties.get("Layers") or [])]
            names = [item["Ref"] for item in all_layers if isinstance(item, dict) and "Ref" in item]
            sources[logical_id] = Source(folder, tuple(p for name in names for p in layers.get(name, ())))
    if isinstance(global_properties, dict) and isinstance(global_properties.get("CodeUri"), str):
        global_properties["CodeUri"] = _CODE_OBJECT
    return sources


def _local_folder(value: Any, root: Path, logical_id: str) -> Path | None:
    if not isinstance(value, str) or value.startswith("s3://"):
        return None
    folder = (root / value).resolve()
    if not folder.is_dir():
        raise StartError(f"{logical_id}: its folder {folder} does not exist")
    return folder


def _layer_paths(folder: Path) -> tuple[Path, ...]:
    """A built layer has `python/` (extracted to /opt/python); a source folder for `sam build` does not."""
    python_folder = folder / "python"
    return (python_folder, folder) if python_folder.is_dir() else (folder,)
