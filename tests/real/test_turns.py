"""Turns with tools against a real model, on each rung: they end, and no frame is lost or doubled.

The model is tiny and writes nonsense, so a turn may end with an error; which one, clients must be told.
"""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab.protocol.errors import ErrorCode
from codelab_client.execution import Stream, ToolCall
from codelab_client.tools.executor import Executor
from codelab_client.tools.workspace import DiskWorkspace
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.fakes.ide.ide import Ide
from tests.fakes.ide.received import bare
from tests.real.llama import MODEL, WINDOW, Llama

pytestmark = [pytest.mark.deep, pytest.mark.real]

RUNGS = ("native", "tool", "json", "calls")
#: How many turns on each rung; a session has five of them.
COUNT = int(os.environ.get("REAL_TURNS", "20"))
_PER_SESSION = 5
#: Seconds in which a turn ends, and in which a frame comes within it.
_TURN_S, _FRAME_S = 600.0, 300.0
#: An agent that asks in one way only. It has few tools, so that its prompt is short.
_AGENT = """\
description = "Asks the model by {rung} only."
tools = ["read_file", "list_files", "write_file"]
prompt = "You work on files by calling tools."
[model]
strategy = "{rung}"
temperature = 0.7
max_output_tokens = 200
[model.extra_body]
repeat_penalty = 1.1
"""
_TASKS = (
    "Read notes.txt with read_file.",
    "List the files with list_files.",
    "Write the word hello to new.txt with write_file.",
    "Read missing.txt and tell me what it says.",
    "Say hello.",
)


@pytest.fixture(scope="module")
def rungs_cloud(llama: Llama, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """The system with an agent for each rung, in a copy of what it runs."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("functions", "layers"):
        shutil.copytree(TEMPLATE.parent / name, folder / name)
    for name in ("template.yaml", "pyproject.toml"):
        shutil.copy(TEMPLATE.parent / name, folder)
    for rung in RUNGS:
        (folder / "layers/codelab/codelab/agents" / f"{rung}.toml").write_text(_AGENT.format(rung=rung), "utf-8")
    environment = {
        "LLM_BASE_URL": llama.base_url,
        "LLM_API_KEY": "none",
        "LLM_MODEL": MODEL,
        "LLM_PROVIDER": "llama.cpp",
        "LLM_CAPABILITIES": json.dumps({MODEL: {"window": WINDOW}}),
        "MAX_STEPS": "2",
    }
    with LocalCloud(folder / "template.yaml", environment=environment) as running:
        yield running


class Turns:
    """Turns of one session; the project's own executor executes their calls in `folder`."""

    def __init__(self, cloud: LocalCloud, session: str, rung: str, folder: Path) -> None:
        self._url = cloud.url(session, extensions=1)
        self._executor = Executor(DiskWorkspace(folder))
        self.ide = Ide(self._url)
        self.ide.send("hello", capabilities={"tools_supported": list(self._executor.tools_supported)})
        self.ide.expect("session_info")
        self.ide.request("switch_agent", agent_type=rung)
        self.results = 0

    def take(self, task: str) -> str:
        """One turn. Returns how it ended: its reason, or the code and kind of its error. Raises TimeoutError."""
        begun, first = time.monotonic(), len(self.ide.frames)
        self.ide.say(task)
        while (frame := self.ide.receive(_FRAME_S))["type"] != "turn_end":
            if time.monotonic() > begun + _TURN_S:
                raise TimeoutError("the turn does not end")
            if frame["type"] == "tool_call":
                self._answer(frame)
        frames = self.ide.frames[first:]
        self.ide.expect("agent_status", status="idle")
        _check_text(frame, frames)
        if frame["reason"] != "error":
            return str(frame["reason"])
        error = next(shown for shown in reversed(frames) if shown["type"] == "error")
        assert error["error_code"] in (ErrorCode.LLM_ERROR, ErrorCode.CONTEXT_TOO_LARGE), error
        return f"{error['error_code']} {error['details'].get('reason', '')}".strip()

    def _answer(self, frame: dict[str, Any]) -> None:
        if frame["requires_approval"]:
            self.ide.decide(frame, "approve" if self.results % 3 else "reject")
        elif frame.get("execute", True):
            outcome = asyncio.run(self._executor.execute(ToolCall.from_frame(frame), _ignored))
            self.ide.send("tool_result", call_id=frame["call_id"], **outcome.fields())
            self.results += 1

    def count_frames(self) -> Counter[str]:
        """Count the numbered frames that came, that are missing, and that came again, and check them.

        A connection that resumes must get the same ones.
        """
        seqs = [frame["seq"] for frame in self.ide.frames if "seq" in frame]
        distinct = set(seqs)
        lost = max(seqs) - min(seqs) + 1 - len(distinct)
        assert seqs == sorted(seqs), "frames came in another order"
        with Ide(self._url) as late:
            late.send("resume", last_seq=min(seqs) - 1)
            while late.receive().get("seq") != max(seqs):
                pass
            assert _logged(late.frames) == _logged(self.ide.frames)
        return Counter(frames=len(seqs), lost=lost, doubled=len(seqs) - len(distinct))

    def close(self) -> None:
        self.ide.socket.close()


async def _ignored(stream: Stream, text: str) -> None:
    pass


def _check_text(end: dict[str, Any], frames: list[dict[str, Any]]) -> None:
    """The deltas of the turn's last message are the text that the server has stored."""
    deltas = [frame for frame in frames if frame["type"] == "assistant_message"]
    if end.get("final_text_sha256") is None or not deltas:
        return
    text = "".join(frame["token"] for frame in deltas if frame["message_id"] == deltas[-1]["message_id"])
    assert hashlib.sha256(text.encode()).hexdigest() == end["final_text_sha256"]


def _logged(frames: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The numbered frames, without what differs between connections."""
    return {frame["seq"]: bare(frame) for frame in frames if "seq" in frame}


@pytest.mark.parametrize("rung", RUNGS)
def test_turns_end_and_lose_and_double_nothing(
    rungs_cloud: LocalCloud, llama: Llama, tmp_path: Path, figures: list[str], rung: str
) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.\n", "utf-8")
    ends: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for first in range(0, COUNT, _PER_SESSION):
        turns = Turns(rungs_cloud, f"{rung}_{first}", rung, tmp_path)
        try:
            for place in range(first, min(first + _PER_SESSION, COUNT)):
                try:
                    ends[turns.take(_TASKS[place % len(_TASKS)])] += 1
                except TimeoutError:
                    counts["hangs"] += 1
                    break
                counts["crashes"] += not llama.is_running
            counts += turns.count_frames()
            counts["calls"] += len({frame["call_id"] for frame in turns.ide.of_type("tool_call")})
            counts["results"] += turns.results
        except BaseException:
            sys.stderr.write(rungs_cloud.logs())
            raise
        finally:
            turns.close()
    zeros = ("crashes", "hangs", "lost", "doubled")
    figures.append(
        f"{rung}: {ends.total()} turns, {counts['calls']} calls, {counts['results']} of them executed, "
        f"{counts['frames']} frames; {', '.join(f'{name} {counts[name]}' for name in zeros)}; ends: {dict(ends)}"
    )
    assert not any(counts[name] for name in zeros)
    assert ends.total() == COUNT
    if rung == "native" and COUNT >= _PER_SESSION:
        assert counts["results"], "no call was executed"
