"""The answer as Server-Sent Events in a browser's EventSource, on both hosts and with broken connections."""

import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from codelab_local import LocalCloud

from tests.conftest import Open, opener
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.rest.conftest import client_of
from tests.rest.event_source import Event, EventSource, Parser
from tests.rest.test_sessions import refused

#: For tests on this host only.
streaming = pytest.mark.parametrize("host", ["cloud"], ids=["streamed"], indirect=True)
Told = list[dict[str, Any]]


#: What differs is in `test_stream_bounds.py` in every run; this host needs a cloud of its own.
BUFFERED = pytest.param("buffered_cloud", marks=pytest.mark.deep)


@pytest.fixture(params=["cloud", BUFFERED], ids=["streamed", "buffered"])
def host(request: pytest.FixtureRequest) -> LocalCloud:
    """Each of the two hosts of the stream."""
    running: LocalCloud = request.getfixturevalue(request.param)
    return running


@pytest.fixture
def api(host: LocalCloud) -> Iterator[httpx.Client]:
    with client_of(host) as client:
        yield client


@pytest.fixture
def window(host: LocalCloud) -> Iterator[Open]:
    yield from opener(host)


def told(answer: httpx.Response) -> Told:
    """The events of a complete answer; each id is its event's seq."""
    parser = Parser()
    events = [(event.last_event_id, json.loads(event.data)) for event in parser.feed(answer.content)]
    assert [seq for seq, _ in events] == [str(event.get("seq", event.get("last_seq"))) for _, event in events]
    return [event for _, event in events]


def say(api: httpx.Client, session: str, text: str) -> int:
    answer = api.post("/chat/message", json={"session_id": session, "message": text})
    last_seq: int = answer.json()["last_seq"]
    return last_seq


def until_done(source: EventSource) -> Iterator[Event]:
    for event in source.events():
        yield event
        if json.loads(event.data)["type"] == "done":
            return


def test_streaming_an_answer_matches_the_seed_document(api: httpx.Client, session: str, model: ScriptedModel) -> None:
    say(api, session, model.script("sse seed", Says("Создаю файл", piece=2)))
    answer = api.get(f"/chat/stream/{session}")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = told(answer)
    tokens = [event for event in events if event["type"] == "token"]
    assert "".join(token["content"] for token in tokens) == "Создаю файл"
    assert all(text.startswith('data: {"type":"') for text in answer.text.splitlines() if text.startswith("data"))
    assert [event["type"] for event in events][-2:] == ["done", "agent_status"], "and then it ends"


def test_a_streamed_call_has_arguments_but_is_not_for_execution(
    api: httpx.Client, session: str, window: Open, model: ScriptedModel
) -> None:
    marker = model.script("sse call", Says("", [call("write_file", path="main.dart", content="x")]), Says("Done"))
    ide = window(session)
    thread = threading.Thread(target=ide.converse, args=(marker, lambda frame: {"success": True}))
    thread.start()
    events = [json.loads(event.data) for event in until_done(EventSource(f"{api.base_url}chat/stream/{session}"))]
    thread.join()
    asked, sent = [event for event in events if event["type"] == "tool_call"]
    assert next(iter(asked)) == "type"
    assert (asked["tool_name"], asked["arguments"]) == ("write_file", {"path": "main.dart", "content": "x"})
    assert (asked["requires_approval"], "execute" in asked) == (True, False)
    assert (sent["call_id"], sent["requires_approval"], sent["execute"]) == (asked["call_id"], False, False)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2))])
def test_a_client_that_is_cut_off_sees_every_event_once(
    api: httpx.Client, session: str, model: ScriptedModel, seed: int
) -> None:
    choose = random.Random(seed)
    text = "".join(choose.choice(("слово ", "word ", "🙂 ")) for _ in range(60))
    say(api, session, model.script(f"sse cut {seed}", Says(text, piece=5, delay=0.03)))
    cuts = (7, 60, 250, 500, 900)
    source = EventSource(f"{api.base_url}chat/stream/{session}", cut=lambda: choose.choice(cuts), waits=False)
    seen = list(until_done(source))
    assert [int(event.last_event_id) for event in seen] == list(range(1, len(seen) + 1))
    spoken = [json.loads(event.data) for event in seen]
    assert "".join(event["content"] for event in spoken if event["type"] == "token") == text
    assert source.connections > 3


def test_a_client_continues_at_its_position(api: httpx.Client, session: str) -> None:
    say(api, session, "hello")
    everything = told(api.get(f"/chat/stream/{session}"))
    for after in (0, 1, len(everything) - 1):
        query = api.get(f"/chat/stream/{session}", params={"last_seq": after, "wait": 0})
        last_id = {"Last-Event-ID": str(after)}
        header = api.get(f"/chat/stream/{session}", params={"last_seq": 0, "wait": 0}, headers=last_id)
        assert told(query) == told(header) == everything[after:]


def test_without_a_position_only_the_latest_turn_is_streamed(api: httpx.Client, session: str) -> None:
    say(api, session, "first")
    first = told(api.get(f"/chat/stream/{session}"))
    last_seq = say(api, session, "second")
    second = told(api.get(f"/chat/stream/{session}"))
    assert second[0]["seq"] == last_seq + 1 == first[-1]["seq"] + 1
    assert [event["type"] for event in second].count("done") == 1


def test_events_of_the_websocket_are_streamed_too(
    api: httpx.Client, session: str, window: Open, model: ScriptedModel
) -> None:
    ide = window(session)
    ide.request("switch_agent", agent_type="ask")
    (event,) = told(api.get(f"/chat/stream/{session}", params={"last_seq": 0, "limit": 1}))
    assert (event["type"], event["to_agent"], event["content"]) == ("agent_switched", "ask", "Switched to ask")


def test_limit_and_wait_end_a_stream(api: httpx.Client, session: str) -> None:
    say(api, session, "hello")
    assert len(told(api.get(f"/chat/stream/{session}"))) > 2
    assert len(told(api.get(f"/chat/stream/{session}", params={"limit": 2}))) == 2
    answer = api.get(f"/chat/stream/{session}", params={"last_seq": 10**6, "wait": 0})
    assert [event["type"] for event in told(answer)] == ["resync_required"]
    end = told(answer)[0]["last_seq"]
    quiet = api.get(f"/chat/stream/{session}", params={"last_seq": end, "wait": 0.3})
    assert (told(quiet), quiet.text.count("retry:")) == ([], 1)


def test_a_position_beyond_the_log_begins_at_its_end(api: httpx.Client, session: str) -> None:
    """The session was deleted, and another one has its id."""
    answer = api.get(f"/chat/stream/{session}", headers={"Last-Event-ID": "7"}, params={"wait": 0})
    assert told(answer) == [{"type": "resync_required", "last_seq": 0}]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/chat/stream/there_is_none", 404, "SESSION_NOT_FOUND"),
        ("/chat/stream/a%23b", 422, "INVALID_ARGUMENTS"),
        ("/chat/stream/x?last_seq=-1", 422, "INVALID_ARGUMENTS"),
        ("/chat/stream/x?limit=0", 422, "INVALID_ARGUMENTS"),
        ("/chat/stream/x?wait=many", 422, "INVALID_ARGUMENTS"),
    ],
)
def test_invalid_parameters_are_refused(api: httpx.Client, path: str, status: int, code: str) -> None:
    refused(api.get(path), status, code)


@streaming
def test_a_stream_ends_when_its_session_is_deleted(api: httpx.Client, session: str) -> None:
    """Only on the streaming host: the other ends soon anyway."""
    with api.stream("GET", f"/chat/stream/{session}", params={"last_seq": 0}) as answer:
        assert answer.status_code == 200
        api.delete(f"/sessions/{session}")
        heartbeats = 0
        for line in answer.iter_lines():
            heartbeats += line == ": heartbeat"
            assert heartbeats < 4, "a minute later it has not ended"
    assert api.get(f"/chat/stream/{session}").status_code == 404


@streaming
def test_tokens_arrive_while_the_model_writes(api: httpx.Client, session: str, model: ScriptedModel) -> None:
    """Only on the streaming host."""
    source = EventSource(f"{api.base_url}chat/stream/{session}?last_seq=0")
    go = threading.Event()
    say(api, session, model.script("sse live", Says("word " * 20, piece=5, halfway=go)))
    for event in source.events():
        if json.loads(event.data)["type"] == "token":
            break
    assert api.get(f"/sessions/{session}").json()["status"] == "thinking", "it is still speaking"
    go.set()
    assert source.connections == 1
