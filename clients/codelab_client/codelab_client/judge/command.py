"""`codelab judge`: plays all scenarios to a client, and prints the report."""

import contextlib
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from codelab_client.judge import refusals, scenarios
from codelab_client.judge.drivers import Command, Driver, Person
from codelab_client.judge.play import Play
from codelab_client.judge.rules import Report
from codelab_client.judge.server import NotPlayed, Session, serving

Scenario = Callable[[Play], Awaitable[None]]
#: The scenarios in their order: those that end a client come last.
SCENARIOS: tuple[Scenario, ...] = (
    scenarios.a_call,
    scenarios.an_approval,
    scenarios.a_rejection,
    scenarios.an_edit,
    scenarios.a_large_result,
    scenarios.a_lost_result,
    refusals.broken_connections,
    refusals.throttled_message,
    scenarios.a_call_of_another_window,
    scenarios.repeated_text,
    scenarios.unknown_frames,
    refusals.a_resync,
    refusals.an_expired_token,
    refusals.a_busy_server,
    refusals.a_final_close,
    refusals.a_refused_token,
)
#: Those that only a client with extensions can know.
EXTENSIONS: frozenset[Scenario] = frozenset(
    {
        scenarios.a_large_result,
        scenarios.a_call_of_another_window,
        scenarios.repeated_text,
        scenarios.unknown_frames,
        refusals.a_resync,
        refusals.an_expired_token,
        refusals.a_final_close,
    }
)
#: Those that a browser hides from its client: its WebSocket does not tell the HTTP status of a refusal.
STATUSES: frozenset[Scenario] = frozenset({refusals.a_busy_server, refusals.a_refused_token})


async def judge(
    driver: Driver, workspace: Path, *, port: int = 0, playlist: tuple[Scenario, ...] = SCENARIOS,
    on_scenario: Callable[[str], object] = lambda _: None,
) -> Report:  # fmt: skip
    """Play scenarios to a client that works in `workspace`. on_scenario: gets the title of each before it is played."""
    report = Report()
    session = Session(report)
    async with serving(session, port) as url:
        play = Play(session, driver, workspace, url)
        for scenario in playlist:
            title = str(scenario.__doc__)
            try:
                if scenario in EXTENSIONS and not await play.has_extensions():
                    continue
                on_scenario(title)
                await scenario(play)
            except NotPlayed as reason:
                report.gaps.append(f"{title}: {reason}")
            await play.abandon()
    return report


async def run(
    command: str | None, port: int, lines: Mapping[str, str], patience: float, *, is_browser: bool = False
) -> int:
    """Judge the client that `command` starts, or that a person starts. Returns 1 if it breaks a rule."""
    playlist = tuple(scenario for scenario in SCENARIOS if not is_browser or scenario not in STATUSES)
    async with contextlib.AsyncExitStack() as stack:
        workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="codelab-judge-"))).resolve()
        driver: Driver = Person(workspace)
        if command is not None:
            driver = program = Command(command, workspace, lines, patience)
            stack.push_async_callback(program.stop)
        report = await judge(
            driver,
            workspace,
            port=port,
            playlist=playlist,
            on_scenario=lambda title: sys.stderr.write(f"playing   {title}\n"),
        )
    sys.stdout.write(f"{report.text()}\n")
    return 1 if report.complaints else 0
