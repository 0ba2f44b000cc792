"""The runner: what is kept of an attempt, what is run again, and where a budget ends it; the proxy that counts."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from evals import agents, proxy, runner
from evals.agents import Attempt, HarnessError
from evals.harbor import Task
from evals.image import Image
from tests.evals.made_task import Does, has_bubblewrap, made
from tests.fakes.model.wire import ScriptedServer, failing, saying

pytestmark = pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
}


HI = saying("Hi", usage=USAGE)


@pytest.fixture
def provider() -> Iterator[ScriptedServer]:
    """A model's server that answers "Hi"."""
    with ScriptedServer(HI) as running:
        yield running


@dataclass(frozen=True)
class Asks:
    """An agent that asks the model, and corrects calc.py."""

    times: int = 1
    stream: bool = False
    name: str = "asks"

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        events: list[agents.Event] = [{"kind": "user", "text": task.instruction}]
        for n in range(self.times):
            body = {"model": "another", "messages": [], "temperature": 1, "stream": self.stream}
            answer = httpx.post(f"{base_url}/chat/completions", json=body, headers={"authorization": "Bearer mine"})
            if answer.status_code != 200:
                return Attempt("", "error", events)
            events.append({"kind": "call", "id": str(n // 2), "tool": "edit_file", "arguments": {"path": "calc.py"}})
            events.append({"kind": "result", "id": str(n // 2), "ok": n > 0, "text": "x"})
        image.place("/app/calc.py").write_text("def add(a, b):\n    return a + b\n")
        return Attempt("Corrected.", "completed", events, steps=self.times)


@dataclass(frozen=True)
class Insists:
    """An agent that asks so often, whatever it is told, and then gives up."""

    times: int
    name: str = "insists"

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        for _ in range(self.times):
            httpx.post(f"{base_url}/chat/completions", json={"messages": []})
        return Attempt("", "error", [])


def job(folder: Path, agent: agents.Agent, attempt: int = 0, label: str = "") -> runner.Job:
    return runner.Job(label or agent.name, agent, made(folder / "fix-calc"), attempt)


def run(jobs: list[runner.Job], folder: Path, base_url: str = "http://127.0.0.1:9/v1", **more: Any) -> str:
    endpoint = proxy.Endpoint(base_url, "the-model", "the-key", {"temperature": 0})
    return runner.run(jobs, endpoint, folder, say=lambda _: None, **more)


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_kept_of_an_attempt(provider: ScriptedServer, stream: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prices = runner.Budget(prices=(2.0, 0.5, 10.0, 2.5))
    assert run([job(tmp_path, Asks(2, stream), 1)], out, provider.url, seed=7, budget=prices) == ""
    [kept] = runner.read(out)
    wanted: dict[str, Any] = {
        "label": "asks",
        "task": "fix-calc",
        "kind": "debug",
        "language": "en",
        "held_out": False,
        "attempt": 1,
        "seed": 8,
        "reward": 1.0,
        "solved": True,
        "end": "completed",
        "error": None,
        "answer": "Corrected.",
        "requests": 2,
        "prompt_tokens": 200,
        "cached_tokens": 120,
        "cache_write_tokens": 20,
        "completion_tokens": 40,
        "steps": 2,
        "calls": {"edit_file": 1},
        "repeated": 1,
        "failed_calls": 1,
        "failed_edits": 1,
        "cost": round((60 * 2 + 120 * 0.5 + 40 * 10 + 20 * 2.5) / 1e6, 6),
    }
    assert {name: kept[name] for name in wanted} == wanted
    assert "+    return a + b" in kept["diff"]
    trace = (out / kept["trace"]).read_text().splitlines()
    assert json.loads(trace[0]) == {"kind": "user", "text": "Correct calc.py."}
    sent = provider.requests[0]
    assert (sent["model"], sent["temperature"], sent["seed"]) == ("the-model", 0, 8), "the same for every agent"
    assert [it.headers["authorization"] for it in provider.received] == ["Bearer the-key"] * 2
    assert "the-key" not in (out / "runs.jsonl").read_text()


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    worked: list[Path] = []
    agent = Does(worked.append)
    run([job(tmp_path, agent, n) for n in range(2)], out)
    whole = (out / "runs.jsonl").read_bytes()
    (out / "runs.jsonl").write_bytes(whole[:-30])  # the process died as it wrote
    assert [each["attempt"] for each in runner.read(out)] == [0]
    run([job(tmp_path, agent, n) for n in range(3)], out)
    assert [each["attempt"] for each in runner.read(out)] == [0, 1, 2]
    assert len(worked) == 4
    run([job(tmp_path, agent, n) for n in range(3)], out)
    assert len(worked) == 4
    run([job(tmp_path, agent, 0, "another label")], out)
    assert len(worked) == 5


def test_what_failed_for_the_harness_reasons_is_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fail(_: Path) -> None:
        raise HarnessError("no server")

    run([job(tmp_path, Does(fail))], out)
    [kept] = runner.read(out)
    assert (kept["error"], kept["solved"], kept["reward"]) == ("no server", False, None)
    run([job(tmp_path, Does(lambda _: None))], out)
    [kept] = runner.read(out)
    assert (kept["error"], kept["reward"]) == (None, 0)


def test_a_grader_without_a_reward_is_the_harness_error(tmp_path: Path) -> None:
    task = made(tmp_path / "task", **{"tests/test.sh": "echo no pytest here\n"})
    run([runner.Job("does", Does(lambda _: None), task, 0)], tmp_path / "out")
    [kept] = runner.read(tmp_path / "out")
    assert kept["error"] == "the task's grader gave no reward: no pytest here\n"


@pytest.mark.parametrize(
    ("budget", "word", "made_attempts"),
    [
        (runner.Budget(tokens=240), "240 tokens", 2),
        (runner.Budget(dollars=0.0005, prices=(1.0, 1.0, 10.0, 1.0)), "$0.0005", 2),
        (runner.Budget(minutes=0), "0 minutes", 0),
    ],
)
def test_a_budget_ends_it(
    provider: ScriptedServer, budget: runner.Budget, word: str, made_attempts: int, tmp_path: Path
) -> None:
    jobs = [job(tmp_path, Asks(), n) for n in range(5)]
    assert run(jobs, tmp_path / "out", provider.url, budget=budget) == word
    assert len(runner.read(tmp_path / "out")) == made_attempts


def test_one_attempt_cannot_spend_more_than_all_may(provider: ScriptedServer, tmp_path: Path) -> None:
    run([job(tmp_path, Asks(9))], tmp_path / "out", provider.url, budget=runner.Budget(tokens=360))
    [kept] = runner.read(tmp_path / "out")
    assert (kept["requests"], kept["end"], kept["solved"]) == (3, "error", False)


def test_a_server_that_answers_no_request_says_nothing_about_the_agent(tmp_path: Path) -> None:
    run([job(tmp_path, Asks())], tmp_path / "out")
    [kept] = runner.read(tmp_path / "out")
    assert kept["error"].startswith("the model's server gave no answer: ConnectionRefusedError")


@pytest.mark.parametrize(
    ("statuses", "end", "is_harness_error"),
    [([200, 503, 503], "error", True), ([503, 200], "error", False), ([200, 400], "error", False)],
)
def test_a_server_that_goes_away_says_nothing_about_the_agent_and_one_that_refuses_does(
    provider: ScriptedServer, statuses: list[int], end: str, is_harness_error: bool, tmp_path: Path
) -> None:
    provider.answer(*(HI if status == 200 else failing(status) for status in statuses))
    run([job(tmp_path, Insists(len(statuses)))], tmp_path / "out", provider.url)
    [kept] = runner.read(tmp_path / "out")
    assert (kept["end"], bool(kept["error"])) == (end, is_harness_error)


def test_what_is_no_unicode_ends_no_run(tmp_path: Path) -> None:
    run([job(tmp_path, Does(lambda _: None, answer="half a character: \ud83d"))], tmp_path / "out")
    [kept] = runner.read(tmp_path / "out")
    assert (kept["answer"], kept["error"]) == ("half a character: ?", None)


def test_a_pipe_in_the_workspace_is_not_waited_for(tmp_path: Path) -> None:
    run([job(tmp_path, Does(lambda app: os.mkfifo(app / "pipe")))], tmp_path / "out")
    [kept] = runner.read(tmp_path / "out")
    assert (kept["diff"], kept["restored"]) == ("app/pipe: changed, and no text\n", ["/app/pipe"])


def test_the_key_is_nowhere_but_in_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent is started with: its cloud is this test, which ends it at once."""
    monkeypatch.setenv("LLM_API_KEY", "the-key")
    seen: list[Any] = []

    def end(line: Any, given: Any, environment: Any, limit_s: Any) -> Any:
        seen.append(environment)
        return 3, "", "ended"

    monkeypatch.setattr(agents, "ended", end)
    run([job(tmp_path, agents.Codelab(url="ws://127.0.0.1:9"))], tmp_path / "out")
    assert runner.read(tmp_path / "out")[0]["error"] == "codelab exec ended with 3: ended"
    assert "the-key" not in str(seen)


def test_the_agent_is_told_when_the_models_server_is_gone(tmp_path: Path) -> None:
    with proxy.serving(proxy.Endpoint("http://127.0.0.1:9/v1", "m"), proxy.Spent()) as url:
        answer = httpx.post(f"{url}/chat/completions", json={})
    assert (answer.status_code, "the model's server" in answer.text) == (502, True)
