"""ACP's own JSON Schema, version 1: judges what an agent sends.

acp_schema.json has what is stable and what is not, without descriptions, as the npm package has it that
node/package.json pins; `python -m tests.client.acp_schema` writes it anew.
"""

import json
import os
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs

PROJECT = Path(__file__).parent / "node"
PACKAGE = Path("node_modules/@agentclientprotocol/sdk")
PINNED = Path(__file__).with_suffix(".json")
#: What a client offers if it takes what is not stable yet.
_UNSTABLE_OFFERS = ("plan", "subagents")

Definitions = dict[str, Any]


class InvalidMessage(AssertionError):
    """A message is not as the schema says."""


class Schema:
    """The messages of one version: stable, and in `whole` also those that may still change.

    What is said must be valid for the stable schema, and have no field that the whole one does not know.
    """

    def __init__(self, stable: Definitions, whole: Definitions) -> None:
        self._stable, self._whole = _Judge(stable), _Judge({name: _closed(one) for name, one in whole.items()})

    @classmethod
    def pinned(cls) -> "Schema":
        """The schema that the tests keep."""
        found = json.loads(PINNED.read_text())
        return cls(found["stable"], {**found["stable"], **found["unstable"]})

    @classmethod
    def of(cls, package: Path, version: str = "v1") -> "Schema":
        """The schema in the folder of an npm package."""
        return cls(*(_read(package, version, name) for name in ("schema", "schema.unstable")))

    @property
    def methods(self) -> dict[str, bool]:
        """All methods, the stable ones first, each with whether it is stable."""
        stable = dict.fromkeys(sorted(self._stable.methods), True)
        return stable | dict.fromkeys(sorted(self._whole.methods - stable.keys()), False)

    @property
    def updates(self) -> dict[str, bool]:
        """All kinds of `session/update`, in the schema's order, each with whether it is stable."""
        stable = self._stable.updates
        return {
            kind: kind in stable for kind in (*stable, *(kind for kind in self._whole.updates if kind not in stable))
        }

    def check(self, method: str, value: Any, *, answer: bool = False, unstable: bool = False) -> None:
        """Judge the params of a message, or the result of a request. Raises InvalidMessage.

        unstable: the other side has offered what is not stable, or has asked with it.
        """
        kind = "answer" if answer else "message"
        if not unstable:
            self._stable.validate((method, kind), value)
        self._whole.validate((method, kind), value, closed=True)

    def check_error(self, error: Any) -> None:
        """Judge the error of a request. Raises InvalidMessage."""
        self._whole.validate_as("Error", error, closed=True)


class Witness:
    """Hears a connection between an editor and an agent, and judges what the agent says.

    counts: what was said, by sender and method, updates by their kind; an answer is `METHOD answered`, an error
    `METHOD refused`.
    client: the editor's name. With ACP_LOG, a folder, `keep` writes what was said there, for `acp_report`.
    """

    def __init__(self, schema: Schema, client: str = "") -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._schema, self._client = schema, client
        self._requests: dict[tuple[str, str], str] = {}  # methods, by sender and id
        self._takes_unstable = False
        self._heard: list[dict[str, Any]] = []

    def hear(self, sender: str, message: dict[str, Any]) -> None:
        """sender: `editor` or `agent`. Raises InvalidMessage."""
        self._heard.append({"from": sender, "message": message})
        if "method" in message:
            method = message["method"]
            if "id" in message:
                self._requests[sender, str(message["id"])] = method
            if method == "initialize":
                offers = (message.get("params") or {}).get("clientCapabilities") or {}
                self._takes_unstable = any(name in offers for name in _UNSTABLE_OFFERS)
            if sender == "agent":
                self._schema.check(method, message["params"], unstable=self._takes_unstable)
            self.counts[
                sender, message["params"]["update"]["sessionUpdate"] if method == "session/update" else method
            ] += 1
            return
        asked = self._requests.get(("editor" if sender == "agent" else "agent", str(message["id"])), "?")
        if "error" in message:
            if sender == "agent":
                self._schema.check_error(message["error"])
            self.counts[sender, f"{asked} refused"] += 1
            return
        if sender == "agent":
            unstable = self._takes_unstable or not self._schema.methods.get(asked, True)
            self._schema.check(asked, message["result"], answer=True, unstable=unstable)
        self.counts[sender, f"{asked} answered"] += 1

    def hear_log(self, log: Path) -> "Witness":
        """Hear what a recording agent has written. Raises InvalidMessage."""
        for line in log.read_text().splitlines():
            entry = json.loads(line)
            self.hear(entry["from"], json.loads(entry["line"]))
        self.keep()
        return self

    @property
    def used(self) -> set[str]:
        """The methods and kinds of updates that were used: a request counts with its answer."""
        requests = set(self._requests.values())
        answered = {name.removesuffix(" answered") for _, name in self.counts if name.endswith(" answered")}
        return answered | {name for _, name in self.counts if " " not in name and name not in requests}

    @property
    def said(self) -> set[str]:
        """What the agent has said."""
        return {method for sender, method in self.counts if sender == "agent"}

    def keep(self) -> None:
        """Write what was heard, if that is wanted."""
        if folder := os.environ.get("ACP_LOG"):
            log = Path(folder) / f"{self._client}.{uuid.uuid4().hex}.jsonl"
            log.write_text("".join(json.dumps(one) + "\n" for one in self._heard))
            self._heard.clear()


class _Judge:
    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._names: dict[tuple[str, str], str] = {}
        for name, definition in definitions.items():
            if method := definition.get("x-method"):
                self._names[method, "answer" if name.endswith("Response") else "message"] = name
        self._validators: dict[str, Any] = {}

    @property
    def methods(self) -> set[str]:
        return {method for method, _ in self._names}

    @property
    def updates(self) -> list[str]:
        variants = self._definitions["SessionUpdate"]
        kinds = [
            one.get("properties", {}).get("sessionUpdate", {}).get("const")
            for one in variants.get("oneOf", variants.get("anyOf"))
        ]
        return [kind for kind in kinds if kind]

    def validate(self, key: tuple[str, str], value: Any, *, closed: bool = False) -> None:
        if key not in self._names:
            raise InvalidMessage(f"There is no {key[1]} {key[0]}")
        self.validate_as(self._names[key], value, closed=closed)

    def validate_as(self, name: str, value: Any, *, closed: bool = False) -> None:
        if name not in self._validators:
            whole = {"$ref": f"#/$defs/{name}", "$defs": self._definitions}
            options = {"unevaluatedProperties": False} if closed else {}
            self._validators[name] = jsonschema_rs.validator_for({**whole, **options})
        errors = [
            f"{list(error.instance_path)}: {error.message}" for error in self._validators[name].iter_errors(value)
        ]
        if errors:
            raise InvalidMessage(f"{name}: {'; '.join(errors)}\n{json.dumps(value)[:2_000]}")


def _closed(schema: Any, *, same: bool = True) -> Any:
    """A schema by which objects have only the properties that it names: it takes any, so a mistyped name would pass.

    same: it judges the same value as the one around it, which knows more of its properties.
    """
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    for keyword, value in schema.items():
        if keyword in ("allOf", "anyOf", "oneOf"):
            closed[keyword] = [_closed(one) for one in value]
        elif keyword == "properties":
            closed[keyword] = {name: _closed(one, same=False) for name, one in value.items()}
        elif keyword in ("items", "additionalProperties"):
            closed[keyword] = _closed(value, same=False)
    if not same and closed.keys() & {"$ref", "allOf", "anyOf", "oneOf", "properties"}:
        closed["unevaluatedProperties"] = False
    return closed


def _read(package: Path, version: str, name: str) -> Definitions:
    found: Definitions = json.loads((package / "schema" / version / f"{name}.json").read_text())["$defs"]
    return found


def _bare(schema: Any) -> Any:
    """A schema without its descriptions."""
    if isinstance(schema, Mapping):
        return {
            keyword: {name: _bare(one) for name, one in value.items()} if keyword == "properties" else _bare(value)
            for keyword, value in schema.items()
            if keyword != "description" or not isinstance(value, str)
        }
    return [_bare(one) for one in schema] if isinstance(schema, list) else schema


def kept(package: Path) -> str:
    """The content of acp_schema.json for a package."""
    stable, whole = (_bare(_read(package, "v1", name)) for name in ("schema", "schema.unstable"))
    unstable = {name: definition for name, definition in whole.items() if stable.get(name) != definition}
    said = json.loads((package / "package.json").read_text())
    parts = [
        '"{}": {{\n{}\n}}'.format(
            part,
            ",\n".join(
                f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in definitions.items()
            ),
        )
        for part, definitions in (("stable", stable), ("unstable", unstable))
    ]
    source = f'"source": "{said["name"]} {said["version"]}, {said["license"]}"'
    return "{" + ",\n".join([source, *parts]) + "}\n"


if __name__ == "__main__":
    PINNED.write_text(kept(PROJECT / PACKAGE))
