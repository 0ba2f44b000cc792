"""Reads the SAM template: finds each function's source folder, and makes a copy for the emulator.

CloudFormation does not accept a local folder as `CodeUri`; `sam deploy` uploads a zip first. The local cloud runs the
source tree in place, so the copy refers to a tiny object in the emulator's S3 instead.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from codelab_local.host.errors import StartError
from codelab_local.host.notices import notice

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

_CODE_LOCATION = {"S3Bucket": CODE_BUCKET, "S3Key": CODE_KEY}
_FUNCTION = "AWS::Serverless::Function"
#: Where a type has its code, and what stands there for the object in S3.
_FUNCTIONS = {_FUNCTION: ("CodeUri", _CODE_OBJECT), "AWS::Lambda::Function": ("Code", _CODE_LOCATION)}
_LAYERS = {
    "AWS::Serverless::LayerVersion": ("ContentUri", _CODE_OBJECT),
    "AWS::Lambda::LayerVersion": ("Content", _CODE_LOCATION),
}
#: Parts of an API that the emulator does not know. The gateway needs none of them.
_LEFT_OUT = {f"AWS::ApiGatewayV2::{kind}" for kind in ("Deployment", "IntegrationResponse", "Model", "RouteResponse")}
_PLACEHOLDER = "AWS::CloudFormation::WaitConditionHandle"
#: What CloudFormation calls the file of code that a template has itself.
_INLINE_FILE = "index.py"


@dataclass(frozen=True)
class Source:
    """A function's folder, and the folders that its layers add to the import path.

    `name` is what logs call the function: its folder's name, or its logical id if it shares the folder.
    """

    folder: Path
    layers: tuple[Path, ...]
    name: str


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


def read_template(path: Path, inline: Path | None = None) -> Template:
    """Read the template at `path`. Raises :class:`StartError` if it is invalid.

    The code of functions that have it in the template itself is written to `inline`.
    """
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
    sources = _take_sources(document, path.parent, inline)
    if not sources:
        raise StartError(f"template {path} has no {_FUNCTION} with a local CodeUri: there is nothing to run")
    _leave_out(document, _LEFT_OUT)
    body = json.dumps(document, separators=(",", ":"))
    return Template(body, sources, document.get("Parameters") or {}, _services(document["Resources"]))


def without(template: Template, types: frozenset[str]) -> Template:
    """The template with placeholders for the resources of these types, to which nothing refers.

    Raises :class:`StartError` if something does: it would not find what it needs.
    """
    document = json.loads(template.body)
    for logical_id, kind in _leave_out(document, types).items():
        if re.search(rf'"{logical_id}"(?!:)|\$\{{{logical_id}[.}}]', template.body):
            raise StartError(f"the emulator has no {kind}, and others of the template refer to {logical_id}")
        notice(f"{logical_id} is left out: the emulator has no {kind}")
    return replace(template, body=json.dumps(document, separators=(",", ":")))


def _leave_out(document: dict[str, Any], types: Collection[str]) -> dict[str, str]:
    """Put placeholders for the resources of these types. Returns the types by logical id."""
    left_out = {}
    for logical_id, resource in document["Resources"].items():
        if isinstance(resource, dict) and resource.get("Type") in types:
            left_out[logical_id] = resource["Type"]
            resource.update(Type=_PLACEHOLDER, Properties={})
    return left_out


def _services(resources: dict[str, Any]) -> frozenset[str]:
    types = [str(resource.get("Type")) for resource in resources.values() if isinstance(resource, dict)]
    namespaces = {parts[1] for parts in (kind.split("::") for kind in types) if len(parts) == 3}
    return frozenset(_ALWAYS | {_SERVICES.get(name, name.lower()) for name in namespaces})


def _take_sources(document: dict[str, Any], root: Path, inline: Path | None) -> dict[str, Source]:
    """Find every local folder in `document`, and replace it with the object in S3."""
    global_properties = (document.get("Globals") or {}).get("Function") or {}
    layers: dict[str, tuple[Path, ...]] = {}
    for logical_id, properties, (key, code_object) in _of_types(document, _LAYERS):
        folder = _local_folder(properties.get(key), root, logical_id)
        if folder is not None:
            properties[key] = code_object
            layers[logical_id] = _layer_paths(folder)
    folders: dict[str, tuple[Path, tuple[Path, ...]]] = {}
    for logical_id, properties, (key, code_object) in _of_types(document, _FUNCTIONS):
        merged = {**global_properties, **properties} if key == "CodeUri" else properties
        if (reason := _not_run(merged)) is not None:
            notice(f"the function {logical_id} is left out: {reason}")
            if isinstance(merged.get(key), str):
                properties[key] = code_object
        elif (code := _inline_code(merged)) is not None:
            if inline is not None:
                folders[logical_id] = (_written(code, inline / logical_id), ())
        elif (folder := _local_folder(merged.get(key), root, logical_id)) is not None:
            properties[key] = code_object
            all_layers = [*(global_properties.get("Layers") or []), *(properties.get("Layers") or [])]
            names = [item["Ref"] for item in all_layers if isinstance(item, dict) and "Ref" in item]
            folders[logical_id] = (folder, tuple(path for name in names for path in layers.get(name, ())))
        else:
            notice(f"the function {logical_id} is left out: its code is not in a folder of this machine")
    if isinstance(global_properties, dict) and isinstance(global_properties.get("CodeUri"), str):
        global_properties["CodeUri"] = _CODE_OBJECT
    uses = Counter(folder.name for folder, _ in folders.values())
    return {
        logical_id: Source(folder, paths, folder.name if uses[folder.name] == 1 else logical_id)
        for logical_id, (folder, paths) in folders.items()
    }


def _of_types(
    document: dict[str, Any], types: dict[str, tuple[str, Any]]
) -> Iterator[tuple[str, dict[str, Any], tuple[str, Any]]]:
    """Logical id and properties of each resource of these types, with what the type maps to."""
    for logical_id, resource in document["Resources"].items():
        if isinstance(resource, dict) and resource.get("Type") in types:
            if not isinstance(resource.get("Properties"), dict):
                resource["Properties"] = {}
            yield logical_id, resource["Properties"], types[resource["Type"]]


def _not_run(properties: dict[str, Any]) -> str | None:
    """Why the local cloud does not run a function; None if it does."""
    if properties.get("PackageType") == "Image" or "ImageUri" in properties:
        return "it is a container image"
    runtime = properties.get("Runtime")
    if isinstance(runtime, str) and not runtime.startswith("python"):
        return f"its runtime is {runtime}, and only Python runs here"
    return None


def _inline_code(properties: dict[str, Any]) -> str | None:
    code = properties.get("Code")
    text = properties.get("InlineCode", code.get("ZipFile") if isinstance(code, dict) else None)
    return text if isinstance(text, str) else None


def _written(code: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / _INLINE_FILE).write_text(code, "utf-8")
    return folder


def _local_folder(value: Any, root: Path, logical_id: str) -> Path | None:
    if not isinstance(value, str) or value.startswith("s3://"):
        return None
    folder = (root / value).resolve()
    if folder.is_file():
        raise StartError(f"{logical_id}: {folder} is a file: name the folder with the sources")
    if not folder.is_dir():
        raise StartError(f"{logical_id}: its folder {folder} does not exist")
    return folder


def _layer_paths(folder: Path) -> tuple[Path, ...]:
    """A built layer has `python/` (extracted to /opt/python); a source folder for `sam build` does not."""
    python_folder = folder / "python"
    return (python_folder, folder) if python_folder.is_dir() else (folder,)
