"""The history over HTTP, from both HTTP and WebSocket, in pages."""

from datetime import datetime
from typing import Any

import httpx

from tests.conftest import Open
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel


def said(api: httpx.Client, session: str, **query: Any) -> list[tuple[str, str]]:
    messages = api.get(f"/chat/history/{session}", params=query).json()["messages"]
    return [(message["role"], message["content"]) for message in messages]


def test_the_history_matches_the_seed_document(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    marker = model.script("history", Says("Здравствуйте!"))
    window = ide(session)
    sent = api.post("/chat/message", json={"session_id": session, "message": f"Привет {marker}"}).json()
    window.idle()
    history = api.get(f"/chat/history/{session}", params={"limit": 50}).json()
    assert history["total"] == 2
    assert said(api, session) == [("user", f"Привет {marker}"), ("assistant", "Здравствуйте!")]
    assert all(datetime.fromisoformat(message["created_at"]).utcoffset() is not None for message in history["messages"])
    question, answer = history["messages"]
    assert question["id"] == sent["message_id"]
    assert answer["id"] == window.of_type("assistant_message")[0]["message_id"]


def test_a_conversation_can_mix_http_and_websocket(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    one = model.script("half", Says("One", [call("read_file", path="a")]), Says("Two"))
    two = model.script("other half", Says("Three"))
    window = ide(session, extensions=True)
    api.post("/chat/message", json={"session_id": session, "message": one})
    made = window.expect("tool_call")
    (listed,) = api.get(f"/sessions/{session}/pending-approvals").json()["executing"]
    assert (listed["call_id"], listed["arguments"]) == (made["call_id"], {"path": "a"})
    window.result(made, {"content": "x"})
    window.idle()
    window.ask(two)
    assert [role for role, _ in said(api, session)] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    history = api.get(f"/chat/history/{session}").json()
    assert history["messages"][1]["calls"] == [
        {"call_id": made["call_id"], "tool_name": "read_file", "arguments": {"path": "a"}}
    ]
    assert history["messages"][2]["call_id"] == made["call_id"]
    assert history["last_seq"] == window.frames[-1]["seq"] == api.get(f"/sessions/{session}").json()["last_seq"]


def test_the_history_can_be_paged_back_to_its_beginning(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    marker = model.script("pages", Says("answer"))
    window = ide(session)
    for number in range(3):
        window.ask(f"{number} {marker}")
    found: list[int] = []
    query: dict[str, Any] = {"limit": 4}
    while True:
        page = api.get(f"/chat/history/{session}", params=query).json()
        found[:0] = [message["n"] for message in page["messages"]]
        assert page["total"] == 6
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found == [1, 2, 3, 4, 5, 6]


def test_an_empty_history_has_no_messages(api: httpx.Client, session: str) -> None:
    empty = {"messages": [], "total": 0, "last_seq": 0, "next_cursor": None}
    assert api.get(f"/chat/history/{session}").json() == empty


def test_pending_approvals_are_listed(api: httpx.Client, session: str, ide: Open, model: ScriptedModel) -> None:
    window = ide(session)
    asked = window.call_for(
        model.script("approval", Says("", [call("write_file", path="a.py", content="1")]), Says("Done"))
    )
    listed = api.get(f"/sessions/{session}/pending-approvals").json()
    assert listed["executing"] == []
    (waiting,) = listed["pending_approvals"]
    same = {name: asked[name] for name in ("call_id", "tool_name", "arguments")}
    assert waiting.items() >= {**same, "state": "awaiting_approval", "risk": "write"}.items()
    assert (waiting["tool_name"], waiting["arguments"]) == ("write_file", {"path": "a.py", "content": "1"})
    window.decide(asked, "reject")
    window.idle()
    assert api.get(f"/sessions/{session}/pending-approvals").json()["pending_approvals"] == []


def test_the_list_of_tools_matches_the_seed_document(api: httpx.Client) -> None:
    tools = {tool["name"]: tool for tool in api.get("/tools").json()["tools"]}
    assert tools["read_file"]["parameters"]["path"].items() >= {"type": "string", "required": True}.items()
    assert (tools["read_file"]["requires_approval"], tools["write_file"]["requires_approval"]) == (False, True)
    assert "update_plan" not in tools, "no IDE is asked to execute it"


def test_the_agents_are_listed(api: httpx.Client) -> None:
    listed = api.get("/agents").json()
    names = {agent["name"] for agent in listed["agents"]}
    assert listed["default"] in names
    assert all(agent["description"] for agent in listed["agents"])


def test_the_models_are_listed_with_what_they_can_take(api: httpx.Client) -> None:
    listed = api.get("/models").json()
    assert [model["name"] for model in listed["models"]] == ["scripted", "other"]
    assert listed["default"] == "scripted"
    assert listed["models"][0] == {
        "name": "scripted",
        "context_tokens": 24_576,
        "images": True,
        "thinking": ["none", "high"],
    }
