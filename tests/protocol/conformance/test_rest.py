"""Every example of the Agent Runtime API: its requests work, and the answers have its form."""

import json
import threading
from typing import Any

import httpx
import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.protocol.conformance.conftest import Connect
from tests.protocol.conformance.forms import like
from tests.protocol.conformance.seed_examples import of_kind

REST = of_kind("request", "answer")

#: The operations of the examples, in the document's order.
OPERATIONS = list(dict.fromkeys(example.request for example in REST))


def bodies(operation: str, kind: str) -> list[Any]:
    return [example.value for example in REST if example.request == operation and example.kind == kind]


class Api:
    """The system's API, and the examples of an operation."""

    def __init__(self, http: httpx.Client, operation: str) -> None:
        self.http = http
        self.method, path = operation.split(" ")
        self.path = path.split("?")[0]
        self.query = path[len(self.path) :]
        self.answers = bodies(operation, "answer")
        self._requests = bodies(operation, "request")

    @property
    def body(self) -> dict[str, Any]:
        (body,) = self._requests
        return dict(body)

    def call(self, session: str = "", body: Any = None) -> Any:
        """Send the request and return its successful answer."""
        path = self.path.replace("{session_id}", session) + self.query
        answer = self.http.request(self.method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def check(self, answer: Any) -> None:
        (example,) = self.answers
        assert like(example, answer), answer


def session_body(http: httpx.Client) -> dict[str, Any]:
    """The document's body for a new session, without `user_id` if a token names the user."""
    (body,) = bodies("POST /api/v1/sessions", "request")
    return {"metadata": body["metadata"]} if "Authorization" in http.headers else body


@pytest.fixture
def session(http: httpx.Client) -> str:
    """A session created like the document's."""
    answer = http.post("/api/v1/sessions", json=session_body(http))
    assert answer.is_success, answer.text
    created: str = answer.json()["session_id"]
    return created


@pytest.fixture(params=OPERATIONS)
def served(request: pytest.FixtureRequest, http: httpx.Client) -> Api:
    """An operation of the document that the system serves."""
    api = Api(http, request.param)
    paths = http.get("/openapi.json").json()["paths"]
    if api.method.lower() not in paths.get(api.path, {}):
        pytest.skip(f"{request.param} is not served")
    return api


def only(operation: str) -> Any:
    return pytest.mark.parametrize("served", [operation], indirect=True)


@only("POST /api/v1/chat/message")
def test_a_message_is_accepted(served: Api, session: str) -> None:
    served.check(served.call(body={**served.body, "session_id": session}))


@only("GET /api/v1/chat/stream/{session_id}")
def test_the_answer_is_streamed(served: Api, session: str, connect: Connect, scripted: ScriptedModel) -> None:
    window = connect(session)
    write = call("write_file", path="main.dart", content="")
    message = scripted.script("streamed", Says("Создаю файл", [write]), Says("Создан"))
    window.say(message)
    window.result(window.grant(window.expect("tool_call")), {"success": True})
    events = []
    path = served.path.replace("{session_id}", session)
    with served.http.stream("GET", path, headers={"Last-Event-ID": "0"}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data:"):
                events.append(json.loads(line.removeprefix("data:")))
            if events and events[-1]["type"] == "done":
                break
    for example in served.answers:
        same = [event for event in events if event["type"] == example["type"]]
        assert any(like(example, event) for event in same), example
    assert "".join(event["content"] for event in events if event["type"] == "token").startswith("Создаю файл")


@only("GET /api/v1/chat/history/{session_id}?limit=50")
def test_the_history_is_returned(served: Api, session: str, connect: Connect, scripted: ScriptedModel) -> None:
    window = connect(session)
    window.say(scripted.script("history", Says("Здравствуйте!")))
    window.idle()
    told = served.call(session)
    served.check(told)
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"]
    assert told["total"] == 2


@only("POST /api/v1/sessions")
def test_a_session_is_created(served: Api) -> None:
    served.check(served.call(body=session_body(served.http)))


@only("GET /api/v1/sessions/{session_id}")
def test_a_session_is_returned(served: Api, session: str) -> None:
    shown = served.call(session)
    served.check(shown)
    assert shown["session_id"] == session


@only("DELETE /api/v1/sessions/{session_id}")
def test_a_session_is_deleted(served: Api, session: str) -> None:
    answer = served.call(session)
    served.check(answer)
    assert answer["status"] == "deleted"
    assert served.http.get(f"/api/v1/sessions/{session}").status_code == 404


@only("POST /api/v1/tools/execute")
def test_a_tool_is_executed_in_the_connected_ide(served: Api, session: str, connect: Connect) -> None:
    window = connect(session)
    window.send("ping")
    answers: list[Any] = []
    body = {**served.body, "session_id": session}
    waiting = threading.Thread(target=lambda: answers.append(served.call(body=body)))
    waiting.start()
    asked = window.expect("tool_call")
    assert (asked["call_id"], asked["tool_name"]) == (body["call_id"], body["tool_name"])
    assert asked["arguments"] == {"path": "src/main.dart"}
    window.result(asked, served.answers[0]["result"])
    waiting.join(40)
    served.check(answers[0])
    assert answers[0]["result"] == served.answers[0]["result"]


@only("GET /api/v1/tools")
def test_the_tools_are_listed(served: Api) -> None:
    listed = {tool["name"]: tool for tool in served.call()["tools"]}
    for example in served.answers[0]["tools"]:
        tool = listed[example["name"]]
        assert like(example, tool)
        assert {name: it["required"] for name, it in tool["parameters"].items()} == {
            name: it["required"] for name, it in example["parameters"].items()
        }
        assert tool["requires_approval"] is example.get("requires_approval", False)


@only("POST /api/v1/context/{session_id}")
def test_a_file_is_added_to_the_context(served: Api, session: str) -> None:
    answer = served.call(session, served.body)
    served.check(answer)
    assert answer["status"] == "updated"


@only("GET /api/v1/context/{session_id}")
def test_the_context_is_returned(served: Api, session: str) -> None:
    added = bodies("POST /api/v1/context/{session_id}", "request")[0]
    assert served.http.post(f"/api/v1/context/{session}", json=added).is_success
    served.check(served.call(session))


@only("GET /health")
def test_the_service_is_healthy(served: Api) -> None:
    """The document has another database and another path to the model."""
    answer, example = served.call(), dict(served.answers[0])
    dependencies = example.pop("dependencies")
    assert like(example, answer)
    assert answer["status"] == example["status"]
    assert len(answer["dependencies"]) == len(dependencies)


def test_every_operation_of_the_document_is_tested() -> None:
    tried = {
        mark.args[1][0]
        for name, test in globals().items()
        if name.startswith("test_")
        for mark in getattr(test, "pytestmark", ())
        if mark.args[0] == "served"
    }
    assert tried == set(OPERATIONS)
