"""The demonstration model in a process, and a conversation with it as the turn engine holds it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import jsonschema_rs

_CLIENT = httpx.Client(timeout=30)

TOOLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": {"type": "string"}},
    "delete_file": {"path": {"type": "string"}},
    "write_file": {"path": {"type": "string"}, "content": {"type": "string"}},
    "list_files": {
        "path": {"type": "string"},
        "recursive": {"type": ["boolean", "null"]},
        "pattern": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "run_command": {"command": {"type": "string"}, "cwd": {"type": ["string", "null"]}},
    "git.diff": {"path": {"type": "string"}, "staged": {"type": ["boolean", "null"]}},
    "switch_agent": {"agent_type": {"type": "string"}, "reason": {"type": "string"}},
    "update_plan": {"items": {"type": "array", "items": {"type": "object"}}},
}


@contextmanager
def process(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its base URL, once it serves."""
    command = [sys.executable, "-m", "codelab_local.demo_model", *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    assert running.stdout is not None
    try:
        yield running, running.stdout.readline().rpartition(" ")[2].strip()
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


@contextmanager
def demo_model(delay_ms: int = 0) -> Iterator[str]:
    """Its base URL."""
    with process(DEMO_TOKEN_DELAY_MS=str(delay_ms)) as (_, url):
        yield url


def turn_schema(*names: str, enum: bool = False) -> dict[str, Any]:
    """The strict schema of a turn that offers the tools `names` (all of them if none is named)."""
    options = [
        closed({"_tool": {"type": "string", "enum": [name]} if enum else {"const": name}, **TOOLS[name]})
        for name in names or TOOLS
    ]
    return closed({"message": {"type": "string"}, "calls": {"type": "array", "items": {"anyOf": options}}})


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of objects that have exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class Chat:
    """Asks, answers the calls, keeps the history. `strategy`: native, tools or json, as the Request has them."""

    def __init__(self, base_url: str, schema: dict[str, Any] | None = None, strategy: str = "native") -> None:
        self.url = base_url + "/chat/completions"
        self.schema = schema or turn_schema()
        self.strategy = strategy
        system = "You are a coding assistant."
        if strategy == "json":
            system += "\nAnswer with JSON that matches this schema:\n" + json.dumps(self.schema) + "\nNothing else."
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        self.open: list[str] = []

    def ask(self, question: str) -> tuple[str, list[dict[str, Any]]]:
        """The message and the calls that answer `question`."""
        self.messages.append({"role": "user", "content": question})
        return self.step()

    def result(self, *results: Any) -> tuple[str, list[dict[str, Any]]]:
        """Settle the open calls in order and take the next step."""
        assert len(results) == len(self.open)
        for call_id, value in zip(self.open, results, strict=True):
            content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        return self.step()

    def step(self) -> tuple[str, list[dict[str, Any]]]:
        body: dict[str, Any] = {"model": "any", "messages": self.messages}
        if self.strategy == "native":
            described = {"name": "turn", "strict": True, "schema": self.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": described}
        elif self.strategy == "json":
            body["response_format"] = {"type": "json_object"}
        else:
            function = {"name": "generate_response", "parameters": self.schema, "strict": True}
            body["tools"] = [{"type": "function", "function": function}]
            body["tool_choice"] = {"type": "function", "function": {"name": "generate_response"}}
        text = "".join(streamed(self.url, body))
        self.open = []
        if not text:
            return "".join(streamed(self.url, body, of="refusal")), []
        answer = json.loads(text)
        jsonschema_rs.validator_for(self.schema).validate(answer)
        calls: list[dict[str, Any]] = []
        for call in answer["calls"]:
            call_id = f"call_{len(self.messages)}_{len(calls)}"
            self.open.append(call_id)
            arguments = {key: value for key, value in call.items() if key != "_tool" and value is not None}
            function = {"name": call["_tool"], "arguments": json.dumps(arguments)}
            calls.append({"id": call_id, "type": "function", "function": function})
        made = {"tool_calls": calls} if calls else {}
        self.messages.append({"role": "assistant", "content": answer["message"], **made})
        return answer["message"], answer["calls"]


def streamed(url: str, body: dict[str, Any], of: str = "content") -> Iterator[str]:
    """The pieces of a streamed answer: `of` each delta, and the arguments of the called function."""
    with _CLIENT.stream("POST", url, json={**body, "stream": True}) as response:
        if response.status_code != 200:
            raise AssertionError(response.read().decode())
        ended = False
        for line in response.iter_lines():
            if line == "data: [DONE]":
                ended = True
            elif line.startswith("data: "):
                for choice in json.loads(line[6:])["choices"]:
                    delta = choice["delta"]
                    if delta.get(of):
                        yield delta[of]
                    for call in delta.get("tool_calls", ()):
                        if call["function"].get("arguments"):
                            yield call["function"]["arguments"]
        assert ended
