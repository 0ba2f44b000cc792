"""The names that are stored or sent, derived from the code and the templates.

Stored items, clients, callers of the REST API, alarms, dashboards, stacks and operators use them, and none of these
changes together with the code. Names of Python's modules, classes and functions are not among them.
"""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from codelab import sessions
from codelab.config import read_settings
from codelab.protocol.tools import ALIASES
from codelab.rest.app import create_app
from codelab.sessions import keys

from infra.docs import schemas, settings, tools
from infra.observability.template import document
from infra.sam_template import parse

ROOT = Path(__file__).parents[2]

#: What stands for any text and any number.
TEXT, NUMBER = "x", 7
#: So many values are made of each class: enough for every choice that a field's type leaves.
_CHOICES = 10
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "record"})
_OF_THE_QUERY_LANGUAGE = frozenset(
    {
        *("and", "as", "asc", "avg", "bin", "by", "coalesce", "count", "desc", "fields", "filter", "in", "ispresent"),
        *("like", "limit", "max", "not", "or", "parse", "pct", "sort", "stats", "sum"),
    }
)
#: The properties of resources whose values others know.
_NAMED = frozenset({"AttributeName", "FunctionName", "IndexName", "LogGroupName", "RouteKey"})


def names() -> str:
    """All names, sorted, one a line."""
    template = parse(ROOT / "template.yaml")
    watching = document(ROOT / "template.yaml")
    sources = [path for folder in ("layers", "functions") for path in sorted((ROOT / folder).rglob("*.py"))]
    return lines(
        of_keys(vars(keys)),
        of_items(storable_classes()),
        of_frames(schemas.bundle()),
        of_tools(tools.schemas()),
        of_rest(create_app().openapi()),
        of_template(template),
        of_observability(watching),
        of_log([ast.parse(path.read_text(encoding="utf-8")) for path in sources]),
        of_environment(),
    )


def lines(*groups: Iterable[str]) -> str:
    """The lines of all groups, sorted, each once."""
    return "".join(f"{line}\n" for line in sorted({line for group in groups for line in group}))


# -- the table ---------------------------------------------------------------------------------------------------------


def of_keys(module: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a module, and those that its functions make of any text or number."""
    for name, value in module.items():
        if name.startswith("_") or inspect.ismodule(value) or inspect.isclass(value):
            continue
        made = _called(value) if callable(value) else value
        yield from (f"key {text}" for text in (made if isinstance(made, tuple) else [made]) if _is_key(text))


def _called(function: Callable[..., Any]) -> Any:
    """What the function makes of as many texts as it takes, or else of a number; None if of neither."""
    for arguments in ((TEXT,), (NUMBER,), (TEXT, TEXT), (TEXT, TEXT, TEXT)):
        with suppress(Exception):
            return function(*arguments)
    return None


def _is_key(made: Any) -> bool:
    return isinstance(made, str) and made != TEXT


def storable_classes() -> Iterator[type]:
    """The dataclasses of the sessions' package whose values are items: all that is stored but the partition key is what
    `row` gives, or `attributes` of the one that is updated attribute by attribute."""
    for info in pkgutil.iter_modules(sessions.__path__, f"{sessions.__name__}."):
        for value in vars(importlib.import_module(info.name)).values():
            if (
                inspect.isclass(value)
                and is_dataclass(value)
                and (hasattr(value, "row") or hasattr(value, "attributes"))
            ):
                yield value


def of_items(classes: Iterable[type]) -> Iterator[str]:
    """The attributes of the items that values of these classes are stored as, and the words that stand in them."""
    for kind in classes:
        for choice in range(_CHOICES):
            words: set[str] = set()
            value: Any = _filled(kind, choice, words)
            item = value.row() if hasattr(value, "row") else value.attributes()
            sk = item.get("sk", "REGISTER")
            yield from (f"item {sk} {path}" for path in _paths(item, words) if not path.startswith("sk"))


def _filled(kind: Any, choice: int, words: set[str]) -> Any:
    """A value of the type, with nothing in it empty. The words that are choices of the type are added to `words`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _filled(_one_of([it for it in arguments if it is not type(None)], choice), choice, words)
    if origin is Literal:
        words.update(arguments)
        return _one_of(arguments, choice)
    if origin is tuple:
        inner = [it for it in arguments if it is not ...]
        return tuple(_filled(it, choice, words) for it in inner)
    if origin in (list, set, frozenset):
        return origin([_filled(arguments[0], choice, words)])
    if origin is not None and issubclass(origin, Mapping):
        key, value = (_filled(it, choice, words) for it in arguments)
        return {key: value}
    if inspect.isclass(kind) and issubclass(kind, Enum):
        words.update(str(it.value) for it in kind)
        return _one_of(list(kind), choice)
    if is_dataclass(kind):
        hints, make = get_type_hints(kind), cast("Callable[..., Any]", kind)
        return make(**{it.name: _filled(hints[it.name], choice, words) for it in fields(kind) if it.init})
    return {int: NUMBER, float: float(NUMBER), bool: True}.get(kind, TEXT)


def _one_of(choices: Any, choice: int) -> Any:
    return choices[choice % len(choices)]


def _paths(value: Any, words: set[str], path: str = "") -> Iterator[str]:
    """The path of each name in a stored value: `*` is any key, `[]` any element. JSON that stands as text is read."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = json.loads(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            name = re.sub(rf"(^|#)({TEXT}|{NUMBER})$", r"\1*", str(key))
            yield from _paths(inner, words, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for inner in value or [None]:
            yield from _paths(inner, words, f"{path}[]")
    else:
        yield f"{path} = {value}" if value in words else path


# -- what clients send and are sent ------------------------------------------------------------------------------------

Schema = Mapping[str, Any]


def of_frames(bundle: Schema) -> Iterator[str]:
    """The types of frames with their fields, and the words that a field may have, from the frames' JSON Schema."""
    for direction, name in (("client", "ClientFrame"), ("server", "ServerFrame")):
        for frame_type, schema in schemas.frames_of(dict(bundle), name).items():
            yield f"frame of the {direction} {frame_type}"
            yield from (f"frame of the {direction} {frame_type} {path}" for path in _fields(schema, bundle["$defs"]))


def of_tools(catalogue: Schema) -> Iterator[str]:
    """The tools with their arguments, results and errors, and other names of tools."""
    yield from (f"tool {alias} is {name}" for alias, name in ALIASES.items())
    for name, tool in catalogue.items():
        yield f"tool {name}"
        for part in ("parameters", "result"):
            yield from (f"tool {name} {part} {path}" for path in _fields(tool.get(part) or {}, {}))
        yield from (f"tool {name} error {code}" for code in tool.get("errors", ()))


def of_rest(api: Schema) -> Iterator[str]:
    """The methods and paths of the REST API, with what goes in and comes out."""
    shared = api.get("components", {}).get("schemas", {})
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            request = f"rest {method.upper()} {path}"
            yield request
            for parameter in operation.get("parameters", ()):
                yield f"{request} {parameter['in']} {parameter['name']}"
            yield from (f"{request} body {it}" for it in _contents(operation.get("requestBody", {}), shared))
            for status, answer in operation["responses"].items():
                yield f"{request} {status}"
                found = _contents(answer, shared)
                # Errors have the same form everywhere.
                yield from (f"rest error {it}" if status >= "4" else f"{request} {status} {it}" for it in found)


def _contents(part: Schema, shared: Schema) -> Iterator[str]:
    for kind, content in part.get("content", {}).items():
        yield kind
        yield from _fields(content.get("schema", {}), shared)


def _fields(schema: Schema, shared: Schema, path: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """The path of each field in a JSON Schema, and ` = word` for the words that it may have."""
    if (reference := schema.get("$ref")) is not None:
        name = reference.rpartition("/")[2]
        if name not in above:
            yield from _fields(shared[name], shared, path, (*above, name))
    for word in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]:
        yield f"{path} = {word}"
    for name, inner in schema.get("properties", {}).items():
        below = f"{path}.{name}".removeprefix(".")
        yield below
        yield from _fields(inner, shared, below, above)
    for inner in [branch for word in ("anyOf", "oneOf", "allOf") for branch in schema.get(word, ())]:
        yield from _fields(inner, shared, path, above)
    for word, ending in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(word), dict):
            yield from _fields(schema[word], shared, path + ending, above)


# -- the stack ---------------------------------------------------------------------------------------------------------


def of_template(template: Schema) -> Iterator[str]:
    """What the users of a stack know of it: parameters, outputs, logical ids, names, and the functions' variables."""
    yield from (f"parameter {name}" for name in template["Parameters"])
    for name, output in template["Outputs"].items():
        yield f"output {name}"
        if "Export" in output:
            yield f"output {name} exported as {_text(output['Export']['Name'])}"
    everywhere = template["Globals"]["Function"]["Environment"]["Variables"]
    yield from (f"variable of all functions {name}" for name in everywhere)
    for logical_id, resource in template["Resources"].items():
        yield f"resource {logical_id} {resource['Type']}"
        properties = resource.get("Properties", {})
        for name, value in _properties(properties):
            yield f"resource {logical_id} {name} {_text(value)}"
        for name in properties.get("Environment", {}).get("Variables", {}):
            yield f"resource {logical_id} variable {name}"


def _properties(value: Any) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key in _NAMED and (isinstance(inner, str) or "Fn::Sub" in inner):
            yield key, inner
        else:
            yield from _properties(inner)


def _text(value: Any) -> str:
    return value["Fn::Sub"] if isinstance(value, dict) and "Fn::Sub" in value else json.dumps(value).strip('"')


# -- what operators see ------------------------------------------------------------------------------------------------


def of_observability(template: Schema) -> Iterator[str]:
    """Alarms, metrics with their dimensions, and what the saved queries read, from the nested template."""
    yield from (f"observability parameter {name}" for name in template["Parameters"])
    for logical_id, resource in template["Resources"].items():
        yield f"observability resource {logical_id} {resource['Type']}"
        properties = resource["Properties"]
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            name = _text(properties["AlarmName"])
            yield f"alarm {name}"
            yield from (f"alarm {name} watches {metric}" for metric in _metrics(properties))
        elif resource["Type"] == "AWS::CloudWatch::Dashboard":
            yield f"dashboard {_text(properties['DashboardName'])}"
            widgets = json.loads(_text(properties["DashboardBody"]))["widgets"]
            for series in [it for widget in widgets for it in widget["properties"]["metrics"]]:
                names = " ".join(part for part in series if isinstance(part, str))
                yield f"dashboard metric {names}" if names else f"dashboard expression {series[0]['expression']}"
        elif resource["Type"] == "AWS::Logs::QueryDefinition":
            name = _text(properties["Name"])
            yield f"query {name}"
            yield from (f"query {name} reads {word}" for word in _words(properties["QueryString"]))


def _metrics(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and "MetricName" in value:
        dimensions = [f"{it['Name']} {_text(it['Value'])}" for it in value["Dimensions"]]
        yield f"{value['Namespace']} {value['MetricName']} {' '.join(dimensions)}"
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _metrics(inner)


def _words(query: str) -> Iterator[str]:
    """The texts, patterns and fields in a query of CloudWatch Logs Insights."""
    found = re.findall(r'"[^"]*"|/(?! )[^/\n]+/|(?<![\w@.])@?[A-Za-z_][\w.]*', query)
    yield from (word for word in found if word not in _OF_THE_QUERY_LANGUAGE)


def of_log(modules: Iterable[ast.Module]) -> Iterator[str]:
    """The messages that the code writes into its log, and the names of metrics, which are counted of them."""
    for call in [node for module in modules for node in ast.walk(module) if isinstance(node, ast.Call)]:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in _LOG_METHODS and call.args and isinstance(message := getattr(call.args[0], "value", None), str):
            yield f"log message {message}"
        if name in ("metrics", "model_metrics"):
            yield from (f"log metric {keyword.arg}" for keyword in call.keywords if keyword.arg is not None)


class _Asked(dict[str, str]):
    """An empty environment that notes which variables it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return default


def of_environment() -> Iterator[str]:
    """The variables that the functions' settings are read from, and those that operators are told of."""
    asked = _Asked()
    read_settings(asked)
    yield from (f"setting {name}" for name in asked.names)
    page = settings.page(ROOT / "template.yaml")
    yield from (f"setting documented {name}" for name in re.findall(r"^\| `([A-Z_]+)`", page, re.MULTILINE))
