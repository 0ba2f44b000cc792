"""Commands: their output in pieces, their end, what they leave behind, and what they see of the client."""

import asyncio
import os
import selectors
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolCall, ToolOutcome
from codelab_client.sandbox import Sandbox, Unsandboxed
from codelab_client.sandbox.bubblewrap import Bubblewrap
from codelab_client.sandbox.landlock import Landlock
from codelab_client.tools import limits, processes
from codelab_client.tools.executor import Executor, Settings
from codelab_client.tools.processes import end_tasks
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import Output, call, error_code, execute, repository, result, stand_still
from tests.sampling import sampled
from tests.waiting import until

#: Each way to run commands that exists on this machine.
SANDBOXES: dict[str, Callable[[], Sandbox]] = {
    "none": Unsandboxed,
    "landlock": Landlock,
    "bubblewrap": lambda: Bubblewrap(Path.home()),
}


@pytest.fixture(params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return SANDBOXES[request.param]()
    except (OSError, RuntimeError) as error:
        pytest.skip(str(error))


@pytest.fixture
def executor(tmp_path: Path, sandbox: Sandbox) -> Executor:
    return Executor(DiskWorkspace(tmp_path), sandbox)


def run(executor: Executor, what: Callable[[], Awaitable[Any]]) -> Any:
    """Run a conversation with an executor in one event loop, and close it."""

    async def conversation() -> Any:
        try:
            return await what()
        finally:
            await executor.aclose()

    return asyncio.run(conversation())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "EVERY_S", 0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process reads")
@pytest.mark.parametrize("wish", sampled(["vim a", "head -c 1 < /dev/stderr"]))
def test_a_program_that_wants_a_terminal_ends_at_once(executor: Executor, wish: str, impatient: None) -> None:
    """Vim reads keys from its error output if its input has none, and waits for ever if that is a pipe."""
    if shutil.which(wish.split()[0]) is None:
        pytest.skip("it is not installed")
    done = result(executor, "run_command", command=f"({wish}) >&2; echo after")
    assert (done["stdout"], done["exit_code"]) == ("after\n", 0)
    assert f"{wish.split()[0]} waited for a terminal" in done["note"]


def test_a_program_that_wants_input_reads_its_end(executor: Executor) -> None:
    done = result(
        executor, "run_command", command="cat; read answer || echo end; (: < /dev/tty) 2>/dev/null || echo none"
    )
    assert done["stdout"] == "end\nnone\n"
    assert "note" not in done


def test_a_program_that_ignores_the_end_of_its_terminal_is_killed(executor: Executor, impatient: None) -> None:
    done = result(executor, "run_command", command="(trap '' HUP; exec head -c 1 < /dev/stderr); echo after")
    assert done["stdout"] == "after\n"


def test_what_is_read_from_a_pipe_of_its_own_is_left_alone(executor: Executor, impatient: None) -> None:
    done = result(executor, "run_command", command="(sleep 0.5; echo word) | (read answer; echo $answer) | cat")
    assert done["stdout"] == "word\n"
    assert "note" not in done


async def happens(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_output_comes_in_pieces_and_then_as_a_whole(executor: Executor, sandbox: Sandbox, tmp_path: Path) -> None:
    """The command waits for its first piece to arrive, so the pieces cannot come at once."""
    (tmp_path / "sub").mkdir()
    output = Output(lambda text: (tmp_path / "go").touch())
    command = "echo one; while [ ! -e ../go ]; do sleep 0.01; done; printf 'tw\\303\\251\\377' >&2"
    bar = r"printf '1 %%\r\033[32m2 %%\033[m\n'"
    outcome: ToolOutcome = asyncio.run(
        call(executor, "run_command", output, command=f"{command}; {bar}; exit 3", cwd="sub")
    )
    assert output.of("stdout") == "one\n1 %\r\x1b[32m2 %\x1b[m\n"
    assert outcome.result["stdout"] == "one\n2 %\n", "the agent reads the last state"
    assert outcome.result["stderr"] == "twé\ufffd" == output.of("stderr")
    assert (outcome.result["exit_code"], outcome.result["sandbox"]) == (3, sandbox.name)
    assert output.pieces[0] == ("stdout", "one\n")


def test_much_output_is_bounded(executor: Executor) -> None:
    output = Output()
    outcome = asyncio.run(
        call(executor, "run_command", output, command="yes | head -c 3000000; echo end; head -c 2000000 /dev/zero >&2")
    )
    text = outcome.result["stdout"]
    assert text.startswith("y\ny\n")
    assert text.endswith("y\nend\n")
    assert "characters left out" in text
    assert len(text) <= limits.OUTPUT_HEAD + limits.OUTPUT_TAIL + 100
    assert len(outcome.result["stderr"]) <= limits.OUTPUT_HEAD + limits.OUTPUT_TAIL + 100
    assert output.of("stdout").startswith(text[: limits.OUTPUT_HEAD])
    assert output.of("stdout").endswith("y\nend\n")
    assert max(len(piece) for _, piece in output.pieces) <= limits.PIECE_CHARS


def test_an_output_without_end_still_comes_in_pieces() -> None:
    """Whoever watches sees the newest of it, and each piece says that the call is not forgotten."""
    output = processes.Output(head=4, tail=4)
    pieces = []
    for text in ("abcd", "efgh", "x" * (limits.PIECE_CHARS + 5)):
        output.feed(text.encode())
        pieces.append(output.fresh())
    assert pieces[:2] == ["abcd", "efgh"]
    assert pieces[2] == "\n[… 5 characters left out …]\n" + "x" * limits.PIECE_CHARS
    assert output.fresh() == ""


def test_a_stopped_command_tells_the_last_state_of_its_output(tmp_path: Path) -> None:
    executor = Executor(DiskWorkspace(tmp_path))
    command = "printf '1 %%\\r2 %%\\033[K'; sleep 60"

    async def stopped() -> ToolOutcome:
        printed = asyncio.Event()
        running = executor.execute(ToolCall("c", "run_command", {"command": command}), Output(lambda _: printed.set()))
        task = asyncio.ensure_future(running)
        await printed.wait()
        await executor.cancel("c")
        return await task

    outcome = asyncio.run(stopped())
    assert outcome.error is not None
    assert outcome.error.message.endswith("so far:\n2 %")


def test_a_command_has_none_of_the_clients_secrets(tmp_path: Path, sandbox: Sandbox) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "CODELAB_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "SSH_AUTH_SOCK": "/run/secret",
        "GIT_ASKPASS": "/secret",
        "LD_PRELOAD": "",
        "MINE": "mine",
    }
    settings = Settings(variables=("MINE",))
    executor = Executor(DiskWorkspace(tmp_path), sandbox, settings, environment=environment)
    said = result(executor, "run_command", command="env")["stdout"]
    assert "secret" not in said
    assert "LD_PRELOAD" not in said
    assert "MINE=mine" in said
    assert "LC_ALL=C.UTF-8" in said


def test_a_command_reads_nothing(executor: Executor) -> None:
    assert result(executor, "run_command", command="cat")["stdout"] == ""


def test_what_a_command_leaves_in_the_background_is_ended(executor: Executor, tmp_path: Path) -> None:
    command = "(while [ ! -e go ]; do sleep 0.01; done; touch late) & echo started"
    assert result(executor, "run_command", command=command)["stdout"] == "started\n"
    (tmp_path / "go").touch()
    time.sleep(0.3)
    assert not (tmp_path / "late").exists()


def test_a_cancelled_command_may_clean_up_and_then_is_gone(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 30.0)

    async def conversation() -> ToolOutcome:
        command = "trap 'touch cleaned; exit' TERM; touch ready; while :; do sleep 0.02; done"
        running = asyncio.create_task(executor.execute(ToolCall("c", "run_command", {"command": command}), Output()))
        await happens((tmp_path / "ready").exists)
        await executor.cancel("c")
        assert running.done() or await asyncio.wait_for(running, 20)
        return await running

    outcome = run(executor, conversation)
    assert outcome.error.code == "CANCELLED"
    assert (tmp_path / "cleaned").exists()


def test_a_command_that_is_cancelled_as_it_starts_may_clean_up_too(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 30.0)
    create = asyncio.create_subprocess_exec

    async def conversation() -> ToolOutcome:
        known = asyncio.Event()

        async def slow(*arguments: Any, **options: Any) -> Any:
            process = await create(*arguments, **options)
            await known.wait()
            return process

        monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
        command = "trap 'touch cleaned; exit' TERM; touch ready; while :; do sleep 0.02; done"
        running = asyncio.create_task(executor.execute(ToolCall("c", "run_command", {"command": command}), Output()))
        await happens((tmp_path / "ready").exists)
        cancelling = asyncio.create_task(executor.cancel("c"))
        await asyncio.sleep(0.05)
        known.set()
        await cancelling
        return await running

    outcome = run(executor, conversation)
    assert outcome.error.code == "CANCELLED"
    assert (tmp_path / "cleaned").exists()


def test_a_command_that_ignores_sigterm_is_killed(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.2)

    async def conversation() -> ToolOutcome:
        command = "trap '' TERM; while :; do date +%s%N > alive; sleep 0.02; done"
        running = asyncio.create_task(executor.execute(ToolCall("c", "run_command", {"command": command}), Output()))
        await happens((tmp_path / "alive").exists)
        await executor.cancel("c")
        return await running

    outcome = run(executor, conversation)
    assert outcome.error.code == "CANCELLED"
    until(lambda: stand_still(tmp_path / "alive"))


def test_a_cancelled_task_takes_its_command_along(executor: Executor, tmp_path: Path) -> None:
    async def conversation() -> None:
        command = "while :; do date +%s%N > alive; sleep 0.02; done"
        running = asyncio.create_task(executor.execute(ToolCall("c", "run_command", {"command": command}), Output()))
        await happens((tmp_path / "alive").exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(executor, conversation)
    until(lambda: stand_still(tmp_path / "alive"))


def test_who_waits_for_tasks_to_end_can_be_cancelled() -> None:
    async def conversation() -> None:
        ended = asyncio.Event()

        async def slow() -> None:
            try:
                await asyncio.sleep(3_600)
            finally:
                await ended.wait()

        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(end_tasks(task))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        ended.set()
        await end_tasks(task)
        assert task.cancelled()

    asyncio.run(conversation())


def test_a_command_ends_at_its_deadline_with_the_last_of_its_output(tmp_path: Path) -> None:
    executor = Executor(DiskWorkspace(tmp_path), clock=lambda: 1000.0)
    late = ToolCall("c", "run_command", {"command": "echo said; sleep 60"}, deadline=1_000_400)
    outcome = asyncio.run(executor.execute(late, Output()))
    assert outcome.error is not None
    assert outcome.error.code == "TIMEOUT"
    past = ToolCall("d", "run_command", {"command": "touch ran"}, deadline=999_000)
    outcome = asyncio.run(executor.execute(past, Output()))
    assert outcome.error is not None
    assert (outcome.error.code, (tmp_path / "ran").exists()) == ("TIMEOUT", False)


class Jumping(selectors.DefaultSelector):
    """Lets the clock of its event loop jump to the next timer: no stall of this machine is a missed deadline."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout and 0.01)
        if timeout and not ready:
            self.now += timeout
        return ready


def test_a_quiet_command_keeps_its_call_open(tmp_path: Path) -> None:
    """Empty pieces move the deadline, as the protocol has it, up to the cap."""
    executor = Executor(DiskWorkspace(tmp_path), clock=lambda: 1000.0)
    command = {"command": "while [ ! -e go ]; do sleep 0.01; done; echo done"}
    clock = Jumping()

    def end_late(piece: str) -> None:
        if clock.now > 5:
            (tmp_path / "go").touch()

    def loop() -> asyncio.AbstractEventLoop:
        made = asyncio.SelectorEventLoop(clock)
        made.time = lambda: clock.now  # type: ignore[method-assign]
        return made

    output = Output(end_late)
    with asyncio.Runner(loop_factory=loop) as runner:
        outcome = runner.run(executor.execute(ToolCall("c", "run_command", command, deadline=1_001_000), output))
    assert outcome.error is None
    assert outcome.result["stdout"] == "done\n"
    assert ("stdout", "") in output.pieces


def test_a_command_may_run_only_so_long(tmp_path: Path) -> None:
    executor = Executor(DiskWorkspace(tmp_path), settings=Settings(command_seconds=0.2))
    assert error_code(executor, "run_command", command="sleep 60") == "TIMEOUT"


def test_an_output_that_cannot_be_sent_ends_the_command(tmp_path: Path) -> None:
    def broken(text: str) -> None:
        raise ConnectionError

    executor = Executor(DiskWorkspace(tmp_path))
    outcome = asyncio.run(call(executor, "run_command", Output(broken), command="echo x; sleep 60"))
    assert outcome.error is not None
    assert outcome.error.code == "EXECUTION_FAILED"


def test_something_happens_around_every_call_that_may_change_any_file(tmp_path: Path) -> None:
    seen: list[tuple[str, list[str]]] = []

    def look(given: ToolCall) -> None:
        seen.append((given.tool_name, sorted(path.name for path in tmp_path.iterdir() if path.name != ".git")))

    @asynccontextmanager
    async def around(given: ToolCall) -> AsyncIterator[None]:
        look(given)
        try:
            yield
        finally:
            look(given)

    repository(tmp_path)
    executor = Executor(DiskWorkspace(tmp_path), around=around)
    result(executor, "run_command", command="touch a")
    execute(executor, "execute_command", command="touch b", cwd="nowhere")
    result(executor, "read_file", path="a")
    result(executor, "git.branch", action="create", name="other")
    result(executor, "git.branch", action="switch", name="other")
    tools = ("run_command", "execute_command", "git.branch")
    states = ([], ["a"], ["a"], ["a"], ["a"], ["a"])
    assert seen == [(tool, states[2 * at + end]) for at, tool in enumerate(tools) for end in (0, 1)]


def test_a_persistent_process_runs_until_it_is_killed(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "START_SECONDS", 30.0)

    async def conversation() -> list[ToolOutcome]:
        start = {"command": "echo up; while :; do date +%s%N > alive; sleep 0.02; done", "process_id": "server"}
        outcomes = [await call(executor, "run_persistent", **start)]
        await happens((tmp_path / "alive").exists)
        outcomes.append(await call(executor, "run_persistent", **start))
        outcomes.append(await call(executor, "kill_process", process_id="server"))
        outcomes.append(await call(executor, "kill_process", process_id="server"))
        outcomes.append(await call(executor, "run_persistent", command="exit 4", process_id="server"))
        return outcomes

    started, again, killed, gone, short = run(executor, conversation)
    assert (started.result["status"], started.result["stdout"]) == ("running", "up\n")
    assert again.error.code == gone.error.code == "EXECUTION_FAILED"
    assert killed.result["success"]
    assert not short.result["success"]
    assert short.result["status"] == "ended with exit code 4"
    until(lambda: stand_still(tmp_path / "alive"))


def test_closing_ends_every_process(executor: Executor, tmp_path: Path) -> None:
    async def conversation() -> None:
        for number in range(3):
            command = f"echo up; while :; do date +%s%N > alive{number}; sleep 0.02; done"
            await call(executor, "run_persistent", command=command, process_id=str(number))
            await happens((tmp_path / f"alive{number}").exists)

    run(executor, conversation)
    until(lambda: stand_still(*(tmp_path / f"alive{number}" for number in range(3))))


def test_two_calls_at_once_and_the_same_call_twice(tmp_path: Path) -> None:
    executor = Executor(DiskWorkspace(tmp_path))

    async def conversation() -> list[ToolOutcome]:
        wait = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done"
        one = ToolCall("1", "run_command", {"command": wait.format("a", "b")})
        two = ToolCall("2", "run_command", {"command": wait.format("b", "a")})
        first = asyncio.create_task(executor.execute(one, Output()))
        await happens((tmp_path / "a").exists)
        again = await executor.execute(one, Output())
        return [again, *await asyncio.gather(first, executor.execute(two, Output()))]

    again, first, second = run(executor, conversation)
    assert again.error.code == "EXECUTION_FAILED"
    assert first.error is second.error is None


def test_a_change_of_files_that_has_begun_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = DiskWorkspace(tmp_path)
    executor = Executor(workspace)
    write = workspace.tree.apply
    begun = asyncio.Event()

    async def conversation() -> ToolOutcome:
        loop = asyncio.get_running_loop()

        def slow(changes: Any) -> None:
            loop.call_soon_threadsafe(begun.set)
            time.sleep(0.2)
            write(changes)

        monkeypatch.setattr(workspace.tree, "apply", slow)
        given = ToolCall("c", "write_file", {"path": "a", "content": "a"})
        running = asyncio.create_task(executor.execute(given, Output()))
        await begun.wait()
        await executor.cancel("c")
        return await running

    outcome = run(executor, conversation)
    assert outcome.result == {"success": True, "bytes_written": 1}
    assert (tmp_path / "a").read_text() == "a"


def test_a_command_that_a_signal_ends_says_which(tmp_path: Path) -> None:
    found = execute(Executor(DiskWorkspace(tmp_path)), "run_command", command="kill -9 $$").result
    assert (found["exit_code"], found["signal"]) == (None, "SIGKILL")
