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
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import TransportError

from tests.cases import cases
from tests.fakes.http import Exchange, Script, event
from tests.fakes.model.wire import ScriptedServer
from tests.llm.answer import Answer
from tests.llm.schemas import STRING, array, closed, obj

FOLDER = Path(__file__).parent / "recordings"
RECORDINGS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}

SCHEMA = closed(obj(message=STRING, calls=array(closed(obj(path=STRING))) | {"maxItems": 16}))
SOLUTION = {"message": "I read the file first.", "calls": [{"path": "src/main.dart"}]}
CONTEXT = [{"role": "user", "content": "What does src/main.dart do?"}]
QUICK = RetryPolicy(base_s=0.01)


def replaying(answer: dict[str, Any], size: int) -> Script:
    """A script with an answer of a recording. It writes a stream `size` bytes at a time."""

    def script(exchange: Exchange) -> None:
        if "stream" not in answer:
            exchange.json(answer["body"], answer.get("status", 200))
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


@pytest.mark.parametrize("size", [3, 100_000], ids=["in small pieces", "at once"])
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_stream_gives_the_solution(server: ScriptedServer, transport: Any, name: str, size: int) -> None:
    recording = RECORDINGS[name]
    expected = {**recording["outcome"], **recording.get("streamed_outcome", {})}
    server.answer(*(replaying(answer, size) for answer in recording["streamed"]))
    answer = replay(recording, expected, server, transport, streamed=True)
    assert answer.thoughts == expected.get("thoughts", "")
    assert answer.text == expected.get("shown", SOLUTION["message"])
    assert "Deleting" not in answer.text
    if "error" not in expected and "shown" not in expected:
        assert answer.items == SOLUTION["calls"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_answer_gives_the_solution(server: ScriptedServer, transport: Any, name: str) -> None:
    recording = RECORDINGS[name]
    expected = {**recording["outcome"], **recording.get("whole_outcome", {})}
    server.answer(*(replaying(answer, 1) for answer in recording["whole"]))
    replay(recording, expected, server, transport, streamed=False)


def replay(
    recording: dict[str, Any], expected: dict[str, Any], server: ScriptedServer, transport: Any, *, streamed: bool
) -> Answer:
    """What the recording's Request yields, with its end checked."""
    answer, unsupported = Answer(), UnsupportedFeatures()
    request = asked(recording, unsupported)
    if "error" in expected:
        with pytest.raises(TransportError) as caught:
            answer.read(request, transport, streamed=streamed)
        assert caught.type.__name__ == expected["error"]
        assert (caught.value.status, caught.value.retryable) == (expected["status"], expected["retryable"])
        assert caught.value.attempts == expected["attempts"] == len(server.requests)
        return answer
    result = answer.read(request, transport, streamed=streamed).result
    assert (result.solution, result.strategy) == (SOLUTION, expected["strategy"])
    assert result.attempts == expected["attempts"] == len(server.requests)
    if "usage" in expected:
        assert {name: count for name, count in result.usage.as_dict().items() if count is not None} == expected["usage"]
    if "unsupported" in expected:
        assert sorted(unsupported.of(server.url, recording["model"])) == expected["unsupported"]
    for path, value in recording["asked"].items():
        assert at(server.requests[-1], path) == value, path
    if recording["provider"] == "bedrock":
        sent = json.dumps(server.requests[-1].get("response_format"))
        assert '"maxItems"' not in sent, "Bedrock does not support bounds"
    return answer


@cases("name", RECORDINGS)
def test_a_recording_names_its_purpose_and_source(name: str) -> None:
    recording = RECORDINGS[name]
    assert recording["shows"].endswith(".")
    assert recording["source"]
    assert all(source.startswith("https://") for source in recording["source"])
