"""ACP's own JSON Schema, from its npm package: checks recorded messages."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs

SCHEMA = Path("node_modules/@agentclientprotocol/sdk/schema/v1/schema.json")


class Schema:
    """The schema in the packages of a project."""

    def __init__(self, project: Path) -> None:
        whole = json.loads((project / SCHEMA).read_text())
        self._definitions = whole["$defs"]
        self._names: dict[tuple[str, str], str] = {}
        for name, definition in self._definitions.items():
            if method := definition.get("x-method"):
                kind = "response" if name.endswith("Response") else "message"
                self._names[(method, kind)] = name
        self._validators: dict[str, Any] = {}

    def check(self, log: Path) -> Counter[str]:
        """Every recorded message of the agent must be valid. Returns how many there were, by method or its answer."""
        methods: dict[tuple[str, str], str] = {}  # of requests, by their sender and id
        checked: Counter[str] = Counter()
        recorded = [json.loads(line) for line in log.read_text().splitlines()]
        for entry in recorded:
            message, sender = json.loads(entry["line"]), entry["from"]
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                if "id" in message:
                    methods[(sender, str(message["id"]))] = message["method"]
                if sender == "agent":
                    self._validate((message["method"], "message"), message["params"])
                    checked[message["method"]] += 1
            elif sender == "agent" and "error" in message:
                self._validator("Error").validate(message["error"])
            elif sender == "agent":
                method = methods[("editor", str(message["id"]))]
                self._validate((method, "response"), message["result"])
                checked[f"{method} answered"] += 1
        return checked

    def _validate(self, key: tuple[str, str], value: Any) -> None:
        self._validator(self._names[key]).validate(value)

    def _validator(self, name: str) -> Any:
        if name not in self._validators:
            schema = {"$ref": f"#/$defs/{name}", "$defs": self._definitions}
            self._validators[name] = jsonschema_rs.validator_for(schema)
        return self._validators[name]
