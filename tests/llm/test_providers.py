"""Replays what providers really send. Each recording shows a habit of one provider and names its source.

The streams have the shape reported there, with texts of our own. A recording has

    shows, source   what it shows, and where that is documented
    provider, model, config     of the Request
    streamed, whole     the answers to the calls of `Request.stream` and `Request.run`, in order: an error, a body, or
                        a stream, whose strings are raw lines and whose objects are events
    outcome     what is expected; `streamed_outcome` and `whole_outcome` have the differences
    asked       paths in the body of the last call, with the expected values; null if absent
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import ModelError, TransportError
from codelab.llm.outcome import ItemDone, Result, TextDelta, ThinkingDelta

from tests.llm.server import Exchange, Script, ScriptedServer, event

FOLDER = Path(__file__).parent / "recordings"
RECORDINGS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}

SCHEMA = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": False,
            },
            "maxItems": 16,
        },
    },
    "required": ["message", "calls"],
    "additionalProperties": False,
}
SOLUTION = {"message": "I read the file first.", "calls": [{"path": "src/main.dart"}]}
CONTEXT = [{"role": "user", "content": "What does src/main.dart do?"}]
QUICK = RetryPolicy(base_s=0.01)


def replaying(answer: dict[str, Any], size: int) -> Script:
    """A script with an answer of a recording. It writes a stream `size` bytes at a time."""

    def script(exchange: Exchange) -> None:
        if "stream" not in answer:
            exchange.json(answer["body"], f"{answer.get('status', 200)} X")
            return
        lines = [event(item) if isinstance(item, dict) else item.encode() + b"\n" for item in answer["stream"]]
        if answer.get("done", True):
            lines.append(b"data: [DONE]\n\n")
        data = b"".join(lines)
        exchange.begin()
        for at in range(0, len(data), size):
            exchange.write(data[at : at + size])
        exchange.end()

    return script


def asked(recording: dict[str, Any], unsupported: UnsupportedFeatures) -> Request:
    config = RequestConfig(recording["model"], provider=recording["provider"], **recording["config"])
    return Request(config, SCHEMA, CONTEXT, unsupported=unsupported, retry=QUICK)


def at(body: Any, path: str) -> Any:
    for key in path.split("."):
        body = (body[int(key)] if isinstance(body, list) else body.get(key)) if body is not None else None
    return body


class Replay:
    """What a Request yields for a recording."""

    def __init__(self) -> None:
        self.shown = ""
        self.thoughts = ""
        self.items: list[Any] = []
        self.result: Result | None = None
        self.error: ModelError | None = None

    def stream(self, request: Request, transport: Transport) -> None:
        attempt = 0
        try:
            for happened in request.stream(transport):
                if isinstance(happened, TextDelta):
                    self.shown += happened.text
                elif isinstance(happened, ThinkingDelta):
                    self.thoughts += happened.text
                elif isinstance(happened, ItemDone):
                    if happened.attempt != attempt:
                        attempt, self.items = happened.attempt, []
                    self.items.append(happened.value)
                else:
                    self.result = happened.result
        except ModelError as error:
            self.error = error

    def run(self, request: Request, transport: Transport) -> None:
        try:
            self.result = request.run(transport)
        except ModelError as error:
            self.error = error


@pytest.mark.parametrize("size", [3, 100_000], ids=["in small pieces", "at once"])
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_stream_gives_the_solution(server: ScriptedServer, transport: Any, name: str, size: int) -> None:
    recording = RECORDINGS[name]
    expected = {**recording["outcome"], **recording.get("streamed_outcome", {})}
    unsupported, replay = UnsupportedFeatures(), Replay()
    server.answer(*(replaying(answer, size) for answer in recording["streamed"]))
    replay.stream(asked(recording, unsupported), transport)
    assert replay.thoughts == expected.get("thoughts", "")
    assert replay.shown == expected.get("shown", SOLUTION["message"])
    assert "Deleting" not in replay.shown
    check(recording, expected, replay, server, unsupported)
    if replay.result is not None and "shown" not in expected:
        assert replay.items == SOLUTION["calls"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_answer_gives_the_solution(server: ScriptedServer, transport: Any, name: str) -> None:
    recording = RECORDINGS[name]
    expected = {**recording["outcome"], **recording.get("whole_outcome", {})}
    unsupported, replay = UnsupportedFeatures(), Replay()
    server.answer(*(replaying(answer, 1) for answer in recording["whole"]))
    replay.run(asked(recording, unsupported), transport)
    check(recording, expected, replay, server, unsupported)


def check(
    recording: dict[str, Any],
    expected: dict[str, Any],
    replay: Replay,
    server: ScriptedServer,
    unsupported: UnsupportedFeatures,
) -> None:
    if "error" in expected:
        assert type(replay.error).__name__ == expected["error"]
        assert isinstance(replay.error, TransportError)
        assert (replay.error.status, replay.error.retryable) == (expected["status"], expected["retryable"])
        assert replay.error.attempts == expected["attempts"] == len(server.requests)
        return
    if replay.error is not None:
        raise replay.error
    assert replay.result is not None
    assert replay.result.solution == SOLUTION
    assert replay.result.strategy == expected["strategy"]
    assert replay.result.attempts == expected["attempts"] == len(server.requests)
    if "usage" in expected:
        assert {key: value for key, value in replay.result.usage.as_dict().items() if value is not None} == expected[
            "usage"
        ]
    if "unsupported" in expected:
        assert sorted(unsupported.of(server.url, recording["model"])) == expected["unsupported"]
    for path, value in recording["asked"].items():
        assert at(server.requests[-1], path) == value, path
    if recording["provider"] == "bedrock":
        assert '"maxItems"' not in json.dumps(server.requests[-1].get("response_format")), (
            "Bedrock does not support bounds"
        )


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_names_its_purpose_and_source(name: str) -> None:
    recording = RECORDINGS[name]
    assert recording["shows"].endswith(".")
    assert recording["source"]
    assert all(source.startswith("https://") for source in recording["source"])
