"""Agents of others: what they leave is read as a trace, and one that cannot be installed is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals import agents, peers, proxy, runner
from tests.evals.made_task import has_bubblewrap, made
from tests.evals.test_runner import provider
from tests.fakes.model.wire import ScriptedServer

__all__ = ["provider"]  # a fixture


def kinds(attempt: agents.Attempt) -> list[tuple[str, Any]]:
    return [(event["kind"], event.get("text", event.get("tool"))) for event in attempt.events]


def test_what_mini_swe_agent_leaves(tmp_path: Path) -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "system", "content": "You are …"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "calc.py"}]},
        {"role": "assistant", "content": "It is 42."},
    ]
    info = {"exit_status": "Submitted", "submission": "42"}
    (tmp_path / "run.json").write_text(json.dumps({"info": info, "messages": messages}))
    attempt = peers.PEERS["mini-swe-agent"].attempt(tmp_path, "")
    assert (attempt.answer, attempt.end, attempt.steps) == ("It is 42.\n42", "completed", 2)
    assert kinds(attempt) == [
        ("assistant", "I look."),
        ("call", "bash"),
        ("result", "calc.py"),
        ("assistant", "It is 42."),
    ]
    assert attempt.events[1]["arguments"] == {"command": "ls"}


def test_what_aider_leaves(tmp_path: Path) -> None:
    (tmp_path / "llm.txt").write_text(
        "TO LLM 2026-11-27T03:05:31\n-------\nSYSTEM Act.\nASSISTANT an example\nLLM RESPONSE 2026-11-27T03:05:32\n"
        "ASSISTANT calc.py\nASSISTANT \nASSISTANT It is 42.\nTO LLM 2026\n-------\nASSISTANT calc.py\n"
        "LLM RESPONSE 2026\nASSISTANT Now it is right.\n"
    )
    attempt = peers.PEERS["aider"].attempt(tmp_path, "Applied edit to calc.py")
    assert (attempt.answer, attempt.end, attempt.steps) == ("Now it is right.", "", 2)
    assert kinds(attempt)[0] == ("assistant", "calc.py\n\nIt is 42.")


def test_what_opencode_prints(tmp_path: Path) -> None:
    state = {"status": "completed", "input": {"command": "ls"}, "output": "calc.py"}
    rows = [
        {"type": "text", "part": {"text": "I look."}},
        {"type": "tool_use", "part": {"callID": "c", "tool": "bash", "state": state}},
        {"type": "tool_use", "part": {"callID": "d", "tool": "read", "state": {"status": "error", "error": "no"}}},
        {"type": "step_finish", "part": {}},
        {"type": "text", "part": {"text": "It is 42."}},
        {"type": "step_finish", "part": {}},
    ]
    attempt = peers.PEERS["opencode"].attempt(tmp_path, "\n".join(["not JSON", *map(json.dumps, rows)]))
    assert (attempt.answer, attempt.end, attempt.steps) == ("It is 42.", "", 2)
    assert [event["ok"] for event in attempt.events if event["kind"] == "result"] == [True, False]


@pytest.mark.parametrize("name", peers.PEERS)
def test_one_that_leaves_nothing_has_failed_or_said_nothing(name: str, tmp_path: Path) -> None:
    attempt = peers.PEERS[name].attempt(tmp_path, "Traceback …")
    assert attempt.answer == ""
    assert attempt.end in ("", "error")


@pytest.mark.deep
def test_one_that_cannot_be_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "peers")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    task = made(tmp_path / "fix-calc")
    job = runner.Job("mini", peers.Peer("mini-swe-agent"), task, 0)
    runner.run([job], proxy.Endpoint("http://127.0.0.1:9/v1", "m"), tmp_path / "out", say=lambda _: None)
    [kept] = runner.read(tmp_path / "out")
    assert kept["error"].startswith("mini-swe-agent cannot be installed here: ")
    assert not (tmp_path / "peers" / "mini-swe-agent" / "whole").exists()


@pytest.mark.deep
@pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")
@pytest.mark.parametrize("name", peers.PEERS)
def test_each_that_is_installed_works_in_the_sandbox(name: str, provider: ScriptedServer, tmp_path: Path) -> None:
    if not (peers.FOLDER / name / "whole").exists():
        pytest.skip(f"python -m evals run --agents {name} installs it")
    task = made(tmp_path / "fix-calc", **{"task.toml": '[metadata]\nkind = "debug"\n[agent]\ntimeout_sec = 90\n'})
    endpoint = proxy.Endpoint(provider.url, "the-model", sampling={"temperature": 0})
    runner.run([runner.Job(name, peers.Peer(name, 3), task, 0)], endpoint, tmp_path / "out", say=lambda _: None)
    [kept] = runner.read(tmp_path / "out")
    assert kept["error"] is None
    assert any("Correct calc.py." in json.dumps(body["messages"]) for body in provider.requests)
    assert {body["temperature"] for body in provider.requests} == {0}
    assert kept["diff"] == ""
