"""`codelab judge` finds each fault of a client, and only it, and has no complaint about clients without faults."""

import asyncio
import contextlib
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from codelab_client.judge import refusals, scenarios
from codelab_client.judge.command import SCENARIOS, Scenario, judge
from codelab_client.judge.drivers import Command
from codelab_client.judge.rules import RULES, Report
from codelab_client.session import Session, Timing, connect
from websockets.exceptions import ConnectionClosed

from tests.fakes.ide.pupil import Pupil
from tests.fakes.ide.seed_ide import SeedIde

PAGE = Path(__file__).parents[2] / "docs" / "your-own-client.md"
#: Each fault of the pupil, the rule that it breaks, and the scenarios that show it.
FAULTS: dict[str, tuple[str, tuple[Scenario, ...]]] = {
    "executes again": ("executes-once", (scenarios.a_call,)),
    "invents ids": ("call-ids", (scenarios.a_call,)),
    "pings often": ("pings", (scenarios.a_call,)),
    "sends nonsense": ("valid-frames", (scenarios.a_call,)),
    "sends large frames": ("size-limits", (scenarios.a_call, scenarios.a_large_result)),
    "executes others' calls": ("leaves-others-calls", (scenarios.a_call, scenarios.a_call_of_another_window)),
    "executes settled calls": ("leaves-settled-calls", (scenarios.a_lost_result,)),
    "forgets results": ("repeats-result", (scenarios.a_lost_result,)),
    "resumes from 0": ("resumes", (scenarios.a_lost_result,)),
    "does not wait": ("waits-for-approval", (scenarios.an_approval,)),
    "executes rejected calls": ("obeys-rejection", (scenarios.a_rejection,)),
    "executes the original": ("executes-the-edit", (scenarios.an_edit,)),
    "shows repeats": ("drops-repeats", (scenarios.repeated_text,)),
    "answers the unknown": ("ignores-unknown", (scenarios.unknown_frames,)),
    "storms": ("no-storm", (refusals.broken_connections,)),
    "waits evenly": ("jitter", (refusals.broken_connections,)),
    "answers throttling": ("silent-when-throttled", (refusals.throttled_message,)),
    "skips resume": ("resumes-when-throttled", (refusals.throttled_message,)),
    "renames messages": ("repeats-refused", (refusals.throttled_message,)),
    "forgets the resync": ("obeys-resync", (refusals.a_resync,)),
    "ignores expiry": ("expired-token", (refusals.an_expired_token,)),
    "ignores Retry-After": ("retry-after", (refusals.a_busy_server,)),
    "returns after 1000": ("final-close", (refusals.a_final_close,)),
    "returns after 401": ("final-401", (refusals.a_refused_token,)),
}
#: The rules that a client can keep that knows the seed documents alone.
SEEDS = {"valid-frames", "call-ids", "executes", "waits-for-approval", "obeys-rejection", "executes-the-edit"}


async def judged(client: Callable[..., Any], folder: Path, *faults: str, playlist: tuple[Scenario, ...]) -> Report:
    """The report on a client that works in a new folder."""
    folder.mkdir()
    driver = client(folder, *faults)
    try:
        return await judge(driver, folder, playlist=playlist)
    finally:
        await driver.stop()


def _is_slow(playlist: tuple[Scenario, ...]) -> bool:
    """Whether how long a client waits decides. On a machine that stalls, it may wait longer than it wants to."""
    return any(scenario.__module__ == refusals.__name__ for scenario in playlist)


#: The scenarios to play: those that need no patience, and all.
LENGTHS = [False, pytest.param(True, marks=pytest.mark.deep)]


@pytest.mark.parametrize("is_whole", LENGTHS)
async def test_each_fault_is_reported_and_only_it(tmp_path: Path, is_whole: bool) -> None:
    assert {rule for rule, _ in FAULTS.values()} == RULES.keys() - {"executes"}
    faults = {fault: it for fault, it in FAULTS.items() if is_whole or not _is_slow(it[1])}

    async def complaints(fault: str, playlist: tuple[Scenario, ...]) -> set[str]:
        folder = tmp_path / re.sub(r"\W", "-", fault)
        return set((await judged(Pupil, folder, fault, playlist=playlist)).complaints)

    found = await asyncio.gather(*(complaints(fault, playlist) for fault, (_, playlist) in faults.items()))
    assert dict(zip(faults, found, strict=True)) == {fault: {rule} for fault, (rule, _) in faults.items()}


def test_a_complaint_has_its_reason_its_frame_and_its_source() -> None:
    report = Report()
    report.note("call-ids", False, "no call has the id c", {"type": "tool_result", "call_id": "c"})
    (_, reason, frame, source) = report.text().partition("BROKEN")[2].splitlines()[:4]
    assert reason.strip() == "no call has the id c"
    assert frame.strip() == '{"type": "tool_result", "call_id": "c"}'
    assert source.strip() == RULES["call-ids"].source


def test_the_sources_exist() -> None:
    pages = {rule.source.partition(" ")[0].rstrip(",") for rule in RULES.values()}
    for page, _, heading in (source.partition("#") for source in pages):
        text = (PAGE.parents[1] / page).read_text("utf-8")
        assert re.search(rf"^#+ {heading.replace('-', '.')}$", text, re.MULTILINE | re.IGNORECASE), heading


class OwnClient:
    """Drives the Python client."""

    patience = 5.0

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._state = workspace.parent / "state"
        self._shown = ""
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, url: str) -> None:
        await self.stop()
        self._session = None
        self._task = asyncio.ensure_future(self._run(url.removesuffix("/ws/judge")))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, url: str) -> None:
        timing = Timing(repeat_s=3, tick_s=0.05, pause_s=0.25, longest_pause_s=1.5)
        options: dict[str, Any] = {"session_id": "judge", "state": self._state, "timing": timing}
        with contextlib.suppress(Exception):  # The session has ended, as it does after a final refusal.
            async with connect(url, self._workspace, **options) as session:
                self._session = session
                async for event in session.events():
                    self._shown += getattr(event, "token", "")

    async def say(self, text: str) -> None:
        while self._session is None:
            await asyncio.sleep(0.02)
        self._sending = asyncio.ensure_future(self._session.send(text))
        self._sending.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def decide(self, decision: str) -> None:
        assert self._session is not None
        (call_id,) = self._session.open_calls
        if decision == "edit":
            await self._session.edit(call_id, {"path": "edited.txt", "content": "other\n"})
        else:
            await getattr(self._session, decision)(call_id)

    def has_ended(self) -> bool:
        return self._task is None or self._task.done()

    def output(self) -> str:
        return self._shown


class SeedDriver:
    """Drives a client that is written from the seed documents alone, in a thread."""

    patience = 3.0

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._ide: SeedIde | None = None
        self._thread: threading.Thread | None = None

    async def start(self, url: str) -> None:
        self._ide = await asyncio.to_thread(SeedIde, url)
        self._thread = threading.Thread(target=partial(self._read, self._ide), daemon=True)
        self._thread.start()

    def _read(self, ide: SeedIde) -> None:
        with contextlib.suppress(ConnectionClosed, KeyError):  # KeyError: API Gateway's frame has no type
            while True:
                frame = ide.next_frame()
                if frame["type"] == "tool_call" and not frame["requires_approval"]:
                    ide.result(frame, self._execute(frame["arguments"]))

    def _execute(self, arguments: dict[str, str]) -> dict[str, Any]:
        file = self._workspace / arguments["path"]
        if "content" not in arguments:
            return {"content": file.read_text("utf-8")}
        return {"success": True, "bytes_written": file.write_text(arguments["content"], "utf-8")}

    async def say(self, text: str) -> None:
        assert self._ide is not None
        self._ide.say(text)

    async def decide(self, decision: str) -> None:
        assert self._ide is not None
        arguments = {"modified_arguments": {"path": "edited.txt", "content": "other\n"}} if decision == "edit" else {}
        self._ide.decide(self._ide.of_type("tool_call")[-1], decision, **arguments)

    async def stop(self) -> None:
        if self._ide is not None:
            await asyncio.to_thread(self._ide.socket.close)

    def has_ended(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def output(self) -> None:
        return None


@pytest.mark.parametrize("is_whole", LENGTHS)
async def test_there_is_no_complaint_about_clients_that_keep_the_rules(tmp_path: Path, is_whole: bool) -> None:
    playlist = tuple(scenario for scenario in SCENARIOS if is_whole or not _is_slow((scenario,)))
    program = tmp_path / "client.py"
    program.write_text(re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)[0])
    command = f"{sys.executable} {program} {{url}}"
    tutorial = partial(Command, command, lines={"approve": "y", "reject": "n"}, patience=5.0)
    clients: dict[str, Callable[..., Any]] = {
        "pupil": Pupil,
        "own": OwnClient,
        "seed": SeedDriver,
        "tutorial": tutorial,
    }
    reports = dict(
        zip(
            clients,
            await asyncio.gather(
                *(judged(client, tmp_path / name, playlist=playlist) for name, client in clients.items())
            ),
            strict=True,
        )
    )
    for name, report in reports.items():
        assert not report.complaints, f"{name}\n{report.text()}"
    assert reports["seed"].kept_rules >= SEEDS
    if not is_whole:
        return
    unobserved = {name: RULES.keys() - report.kept_rules for name, report in reports.items()}
    assert unobserved["pupil"] == {"pings"}
    assert unobserved["own"] <= {"pings", "size-limits"}  # it asks for an upload
    assert unobserved["tutorial"] <= {"executes-the-edit", "retry-after"}
    assert "24 rules held, 0 broken, 1 not seen" in reports["pupil"].text()
