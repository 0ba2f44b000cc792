"""Going back to an earlier message, with the running system: the conversation, the files, or both."""

import asyncio
import itertools
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from codelab_client import rewind_report
from codelab_client.checkpoints import FilesBack
from codelab_client.local_executor import LocalExecutor
from codelab_client.rewind import Point, Preview, Rewind, RewindError, Rewound, _title
from codelab_client.session import Address, Session, connect
from codelab_client.session import events as on
from codelab_client.session.rest import Rest, RestError
from codelab_local import LocalCloud

from tests.client.conftest import FAST
from tests.client.executing import CountingExecutor
from tests.client.rewinding_client import STEPS
from tests.client.test_session import text, turn
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

_names = (f"rewind-{number}" for number in itertools.count(1))


class Window:
    """A window on a session: the client's own executor in a folder, and the way back."""

    def __init__(self, session: Session, rest: Rest, executor: LocalExecutor) -> None:
        self.session, self.rest = session, rest
        self.rewind = Rewind(session, rest, executor)
        self.executor = executor

    async def say(self, content: str) -> str:
        """A turn whose calls are approved. Returns the answer."""
        events = await turn(self.session, content)
        await self.executor.end_turn()
        return text(events)

    async def preview(self, number: int) -> Preview:
        """Of going back to before the user's message with this number, from 1."""
        points = await self.rewind.points()
        return await self.rewind.preview(points[-number].message_id)

    async def go_back(self, number: int, restore: Any = "both") -> Rewound:
        return await self.rewind.go_back(await self.preview(number), restore)


Open = Callable[..., AbstractAsyncContextManager[Window]]


@pytest.fixture
def window(cloud: LocalCloud, tmp_path: Path) -> Open:
    (tmp_path / "ws").mkdir()

    @asynccontextmanager
    async def opened(session_id: str, folder: str = "ws", **options: Any) -> AsyncIterator[Window]:
        address, state = Address.parse(cloud.http), tmp_path / "state"
        (tmp_path / folder).mkdir(exist_ok=True)
        executor = LocalExecutor(tmp_path / folder, None, state, session=session_id)
        opening = connect(
            address, tmp_path, session_id=session_id, executor=executor, state=state, timing=FAST, **options
        )
        async with opening as session:
            yield Window(session, Rest(address, None), executor)

    return opened


@pytest.fixture
def said(model: ScriptedModel) -> Callable[..., str]:
    """A message, and what the model does with it: calls, then an answer."""

    def script(answer: str, *calls: dict[str, Any], **more: Any) -> str:
        name = next(_names)
        return model.script(name, *([Says("", calls)] if calls else []), Says(answer, **more))

    return script


def write(path: str, content: str) -> dict[str, Any]:
    return call("write_file", path=path, content=content)


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return call("edit_file", path=path, edits=[{"old": old, "new": new}])


async def sessions(rest: Rest) -> set[str]:
    return {session["session_id"] for session in (await rest.get("/sessions?limit=100"))["sessions"]}


async def history(rest: Rest, session_id: str) -> list[str]:
    messages, _ = await rest.messages(session_id)
    return [
        message["content"] for message in messages if message["role"] in ("user", "assistant") and message["content"]
    ]


async def test_conversation_and_files_go_back_and_the_old_branch_stays(
    window: Open, said: Callable[..., str], tmp_path: Path, model: ScriptedModel
) -> None:
    ws, session_id = tmp_path / "ws", next(_names)
    messages = [
        said("First.", write("a", "1")),
        said("Second.", write("a", "2"), call("run_command", command="echo made > made; echo 2 >> log; true")),
        said("Third.", write("a", "3"), write("b", "3")),
    ]
    (ws / "log").write_text("1\n")
    async with window(session_id) as old:
        for message in messages:
            await old.say(message)
        preview = await old.preview(2)
        assert preview.files is not None
        assert (preview.message_count, preview.files.edited_paths) == (2, ("a", "b"))
        assert (preview.files.command_paths, preview.files.deleted_paths) == (("log", "made"), ("b", "made"))
        assert preview.commands == ("run_command echo made > made; echo 2 >> log; true",)
        assert preview.unrecorded_calls == ()
        rewound = await old.rewind.go_back(preview, "both")
        assert (rewound.draft, rewound.problem) == (messages[1], "")
        assert {path.name: path.read_text() for path in ws.iterdir()} == {"a": "1", "log": "1\n"}
        last_seq = old.session.last_seq
    assert rewound.session_id is not None
    async with window(rewound.session_id) as new:
        again = said("Another second.", edit("a", "1", "another"))
        assert await new.say(again) == "Another second."
        assert await history(new.rest, new.session.session_id) == [messages[0], "First.", again, "Another second."]
        request = str(model.requests[again[2:-2]][0]["messages"])
        assert (messages[0] in request, messages[1] in request) == (True, False)
    async with window(session_id) as old:
        assert old.session.last_seq == last_seq
        assert len(await history(old.rest, session_id)) == 6
        listed = await old.rest.get("/sessions?limit=100")
        titles = {session["session_id"]: session["title"] for session in listed["sessions"]}
        assert titles[rewound.session_id].endswith(f"(back to: {messages[1]})")
        assert "back to" not in titles[session_id]
        checkpoints = await old.executor.checkpoints()
        assert checkpoints is not None
        redone = await checkpoints.redo()
        assert redone.changed_since == ("a",), "the new branch has changed it"
        assert (ws / "b").read_text() == "3"
        assert await old.say(said("Fourth.")) == "Fourth."


async def test_what_runs_and_what_waits_ends_first(window: Open, said: Callable[..., str], tmp_path: Path) -> None:
    async with window(next(_names)) as talk:
        await talk.say(said("First.", write("a", "1")))
        await talk.session.send(said("Never.", write("a", "2"), call("run_command", command="echo up; sleep 60")))
        is_up = is_written = False
        async for event in talk.session.events():
            if isinstance(event, on.ToolCall) and event.requires_approval:
                await talk.session.approve(event.call_id)
            is_up = is_up or isinstance(event, on.CallOutput)
            is_written = is_written or (isinstance(event, on.CallFinished) and event.tool_name == "write_file")
            if is_up and is_written:  # What changes while it is shown what would be restored stays.
                break
        await talk.session.send(said("Waits."))
        rewound = await talk.go_back(2)
        assert (talk.session.status, talk.session.queued, talk.session.open_calls) == ("idle", {}, {})
        assert (tmp_path / "ws/a").read_text() == "1"
        assert rewound.session_id is not None
        assert len(await history(talk.rest, rewound.session_id)) == 2


async def test_a_call_that_waits_for_a_decision_is_settled_first(window: Open, said: Callable[..., str]) -> None:
    async with window(next(_names)) as talk:
        await talk.session.send(said("Never.", write("a", "1")))
        async for event in talk.session.events():
            if isinstance(event, on.ToolCall):
                break
        rewound = await talk.go_back(1)
        assert talk.session.open_calls == {}
        assert rewound.files is not None
        assert rewound.files.recorded_calls == frozenset()
        assert rewound.session_id is not None
        assert await history(talk.rest, rewound.session_id) == []


async def test_a_second_window_goes_on_in_the_old_branch_and_two_that_go_back_meet(
    window: Open, said: Callable[..., str]
) -> None:
    session_id = next(_names)
    async with window(session_id) as first, window(session_id) as second:
        for answer in ("First.", "Second."):
            await first.say(said(answer))
        rewounds = await asyncio.gather(first.go_back(2), second.go_back(2))
        assert rewounds[0].session_id == rewounds[1].session_id
        assert await second.say(said("Still here.")) == "Still here."
        fork_id = rewounds[0].session_id
        assert fork_id is not None
        async with window(fork_id) as third:
            await third.say(said("Used."))
        assert (await first.go_back(2)).session_id != fork_id, "somebody has gone on in that copy"


@pytest.mark.parametrize(
    "step", [step if step in ("fork", "path") else pytest.param(step, marks=pytest.mark.deep) for step in STEPS]
)
async def test_a_client_that_is_killed_between_two_steps_does_it_again(
    window: Open, said: Callable[..., str], tmp_path: Path, cloud: LocalCloud, step: str
) -> None:
    session_id, ws = next(_names), tmp_path / "ws"
    async with window(session_id) as first:
        await first.say(said("First.", write("a", "1"), write("b", "1")))
        await first.say(said("Second.", *(edit(path, "1", "2") for path in "ab"), write("new", "2")))
        before = await sessions(first.rest)
    places = map(str, (ws, tmp_path / "state"))
    command = [sys.executable, "-m", "tests.client.rewinding_client", cloud.http, session_id, *places, step]
    died = await asyncio.to_thread(lambda: subprocess.run(command, capture_output=True, check=False))
    assert died.returncode == -signal.SIGKILL, died.stderr
    async with window(session_id) as again:
        after = await sessions(again.rest)
        rewound = await again.go_back(2)
        assert after - before == ({rewound.session_id} if step != "settle" else set()), "the copy is used that was made"
        assert {path.name: path.read_text() for path in ws.iterdir()} == {"a": "1", "b": "1"}
        assert len(await history(again.rest, session_id)) == 4


async def test_a_lost_answer_and_a_busy_server_make_no_second_copy(
    window: Open, said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codelab_client.rewind._PAUSES_S", (0.01, 0.01))
    post, copies = Rest.post, []

    async def lost(*arguments: Any) -> Any:
        copies.append((await post(*arguments))["session_id"])
        if len(copies) < 3:
            raise RestError("no answer", 0 if len(copies) == 1 else 409)
        return {"session_id": copies[-1]}

    async with window(next(_names)) as talk:
        await talk.say(said("First."))
        monkeypatch.setattr(Rest, "post", lost)
        assert (await talk.go_back(1, "conversation")).session_id == copies[0]
    assert len(copies) == 3
    assert len(set(copies)) == 1


async def test_what_ran_elsewhere_or_failed_is_told_apart(
    window: Open, said: Callable[..., str], cloud: LocalCloud
) -> None:
    session_id = next(_names)
    message = said("Done.", write("a", "1"), call("run_command", command="deploy"), call("read_file", path="a"))
    async with connect(
        Address.parse(cloud.http), session_id=session_id, executor=CountingExecutor(), timing=FAST
    ) as one:
        await turn(one, message)
    async with window(session_id) as talk:
        await talk.say(said("Failed.", call("edit_file", path="no", edits=[{"old": "x", "new": "y"}])))
        preview = await talk.preview(1)
        assert (preview.commands, preview.unrecorded_calls) == ((), ("write_file a", "run_command deploy"))
        lists = {paths.title: paths.paths for paths in rewind_report.previewed(preview).lists}
        assert lists == {"Not undone, because there is no checkpoint of it here": preview.unrecorded_calls}
        with pytest.raises(RewindError, match="no such message"):
            await talk.rewind.preview("of another")


async def test_only_files_go_back_and_the_agent_is_told(window: Open, said: Callable[..., str], tmp_path: Path) -> None:
    async with window(next(_names)) as talk:
        await talk.say(said("First.", write("a", "1"), write("new", "1")))
        (tmp_path / "ws/a").write_text("user")
        preview = await talk.preview(1)
        rewound = await talk.rewind.go_back(preview, "files", "everything")
        assert (rewound.session_id, list((tmp_path / "ws").iterdir())) == (None, [])
        assert rewound.files is not None
        told = rewind_report.told_to_agent(preview, rewound.files)
        assert told.split("\n")[1:] == ["- a (deleted)", "- new (deleted)"]
        report = rewind_report.done(preview, rewound, "files", "s")
        assert (report.gist, report.hint) == ("2 files restored.", "/redo brings the files back.")


def test_a_copy_is_named_after_where_it_goes_back_to() -> None:
    assert _title("Ships", "make\nit  fast") == "Ships (back to: make it fast)"
    assert _title("Ships (back to: make it fast)", "x") == "Ships (back to: x)"
    assert _title("", "x\ud800") == "(back to: x<U+D800>)"
    assert len(_title("t" * 200, "m" * 200)) == 200


def test_nothing_of_a_preview_is_cut_or_left_out() -> None:
    many = tuple(f"file {number}" for number in range(99))
    seen = FilesBack(many, ("log",), ("mine", "theirs"), ("theirs",), ("file 1",), (".env (new)",))
    preview = Preview(Point("m", 1, "hello", ""), 3, frozenset(), seen, "", ("run_command make",), ("git.commit x",))
    report = rewind_report.previewed(preview)
    assert report.gist == "Before “hello”: the conversation goes back by this message and 2 after it."
    assert [len(paths.paths) for paths in report.lists] == [98, 1, 1, 1, 1, 1, 1, 1]
    assert "restored from the snapshot" in report.lists[1].title
