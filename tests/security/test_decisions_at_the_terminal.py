"""What a user types decides about the call that was on the screen, and about no other."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from codelab_client.acp import settings, tool_calls
from codelab_client.acp.jsonrpc import RpcError
from codelab_client.acp.permissions import Permissions
from codelab_client.folders import Folders
from codelab_client.local_executor import LocalExecutor
from codelab_client.session import Address
from codelab_client.session import events as on
from codelab_client.terminal import asked, cards, inline
from codelab_client.terminal import conversation as terminal_conversation
from codelab_client.terminal.conversation import TerminalConversation
from codelab_client.terminal.inline import InlineScreen
from codelab_client.terminal.plain import PlainScreen
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from tests.waiting import run


class Recorder:
    """A session that records the decisions."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.open_calls: Mapping[str, on.ToolCall] = {}
        self.address = Address.parse("wss://example.org/prod")
        self.elsewhere = SimpleNamespace(allow=lambda: self.made.append(("allow elsewhere",)))
        self.status, self.queued, self.info = "waiting_approval", {}, None

    async def approve(self, call_id: str, *, tool: str, arguments: Any, remember: Any = None, mode: Any = None) -> None:
        self.made.append(("approve", call_id, *([remember] if remember else [])))

    async def reject(self, call_id: str, feedback: str = "", **_: Any) -> None:
        self.made.append(("reject", call_id, *([feedback] if feedback else [])))

    async def edit(self, call_id: str, arguments: Any) -> None:
        self.made.append(("edit", call_id, arguments))

    async def send(self, text: str, **_: Any) -> str:
        self.made.append(("send", text))
        return "m"

    def has_sent(self, _: str) -> bool:
        return True


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        for module in (asked, terminal_conversation, inline):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def look(self) -> None:
        """Time in which the user reads the question."""
        self.now += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the terminal's modules; the event loop has its own."""
    return Clock(monkeypatch)


def call(call_id: str, **more: Any) -> on.ToolCall:
    given = {"arguments": {"path": f"{call_id}.py"}, "requires_approval": True, "turn_id": "t", **more}
    return on.ToolCall(call_id=call_id, tool_name="delete_file", **given)


def settled(call_id: str, state: str = "expired") -> on.CallUpdate:
    return on.CallUpdate(call_id=call_id, state=state)


def press(screen: InlineScreen, key: str) -> None:
    """A key that the terminal with a live input gets now."""
    keys = screen._prompt.app.key_processor
    keys.feed(KeyPress(key if len(key) == 1 else Keys(key)))
    keys.process_keys()


REMEMBER = {"rule": "x", "scopes": ["session", "user"]}


class Plain:
    """The plain screen of a conversation. `type` is a line that arrives now; it may be processed later."""

    def __init__(self, folder: Path) -> None:
        self.session, self.said = Recorder(), ""
        self.screen = PlainScreen()
        self.screen.show = lambda renderable: self._say(cards.rendered(renderable, 300, colour=False))  # type: ignore[method-assign]
        self.conversation = self.screen.conversation = TerminalConversation(folder, self.screen)
        self.conversation.session = self.session  # type: ignore[assignment]
        self.conversation.executor = LocalExecutor(folder)

    def _say(self, text: str) -> None:
        self.said += text

    def take(self, *events: on.Event) -> None:
        for event in events:
            self.conversation.take(event)
            self.screen.changed()

    async def type(self, line: str, meanwhile: Callable[[], None] = lambda: None) -> list[tuple[Any, ...]]:
        """Returns what was decided."""
        self.said = ""
        typed_for = asked.target(self.conversation)
        meanwhile()
        before = len(self.session.made)
        await self.screen._take(line, typed_for)
        for _ in range(3):
            await asyncio.sleep(0)
        self.screen.changed()
        return self.session.made[before:]


async def test_a_line_for_a_call_that_was_settled_does_not_decide_the_next_one(clock: Clock, tmp_path: Path) -> None:
    for line in ("y", "yes", "n not that", "a", "e"):
        plain = Plain(tmp_path)
        plain.take(call("one", remember=REMEMBER), call("two", remember=REMEMBER))
        clock.look()
        # Typed in time, and processed after the other window has decided.
        assert not await plain.type(line, lambda plain=plain: plain.take(settled("one")))
        assert "Call #1 was settled" in plain.said
        clock.look()
        # Begun before, and sent with Enter when the next question has been there for long.
        assert not await plain.type(line)
        assert "nothing was decided" in plain.said
        assert "y #2" in plain.said
        clock.look()
        assert await plain.type("y #2") == [("approve", "two")]


async def test_a_line_that_came_with_the_question_decides_nothing(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    plain.take(call("one"), call("two"))
    assert not await plain.type("y")
    clock.look()
    assert await plain.type("y") == [("approve", "one")]
    assert not await plain.type("y")  # typed ahead: the second question has just come
    assert "nothing was decided" in plain.said
    clock.look()
    assert await plain.type("n not this") == [("reject", "two", "not this")]


async def test_always_is_confirmed_for_the_call_that_it_was_said_about(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    plain.take(call("one", remember=REMEMBER), call("two", remember=REMEMBER))
    clock.look()
    assert not await plain.type("a")
    assert "one.py" in plain.said
    plain.take(settled("one"))
    clock.look()
    assert not await plain.type("y")
    assert await plain.type("y #2") == [("approve", "two")]  # this call, and no rule
    plain.take(call("three", remember=REMEMBER))
    clock.look()
    assert not await plain.type("a")
    assert await plain.type("y") == [("approve", "three", "session")]


async def test_a_yes_for_a_settled_call_is_no_message_to_the_agent(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    plain.take(call("one"))
    clock.look()
    plain.take(settled("one"))
    assert not await plain.type("y")
    assert "Call #1 was settled" in plain.said
    assert await plain.type("Go on") == [("send", "Go on")]


async def test_a_number_names_its_call_only(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    plain.take(call("one"), call("two"))
    clock.look()
    assert not await plain.type("y #2")
    assert not await plain.type("y #7")
    assert await plain.type("n #1 #2 is better") == [("reject", "one", "#2 is better")]


async def test_a_tools_question_is_answered_by_what_was_typed_for_it(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    first = asyncio.ensure_future(plain.conversation.choose("Delete what?", ["nothing", "all"]))
    second = asyncio.ensure_future(plain.conversation.choose("Keep what?", ["nothing", "all"]))
    await asyncio.sleep(0)
    for question in plain.conversation.questions:
        question.asked_at = clock.now
    clock.look()

    def close() -> None:
        plain.conversation.questions[0].close()
        plain.conversation.questions.popleft()

    await plain.type("1", close)
    assert "was closed" in plain.said
    assert not second.done()
    first.cancel()
    second.cancel()


async def test_a_question_is_printed_when_it_can_be_answered_and_not_under_another(
    clock: Clock, tmp_path: Path
) -> None:
    plain = Plain(tmp_path)
    conversation = plain.conversation
    one = asyncio.ensure_future(conversation.choose("Start the server one?\nIt only reads.", ["yes", "no"]))
    two = asyncio.ensure_future(conversation.choose("Start the server two?\nIt runs evil.", ["yes", "no"]))
    three = asyncio.ensure_future(conversation.confirm("write_file", {"path": "a", "content": ""}, "a has changed"))
    await asyncio.sleep(0)
    plain.take(call("four"))
    assert "server one" in plain.said
    assert not re.search("server two|evil|has changed|four.py", plain.said)
    assert "Start the server one?  Your choice" in plain.said.splitlines()[-1]
    clock.look()
    await plain.type("1")
    assert one.done()
    assert "It runs evil." in plain.said
    assert "Start the server two?  Your choice" in plain.said.splitlines()[-1]
    await plain.type("1")  # typed ahead
    assert not two.done()
    clock.look()
    await plain.type("2")
    assert await two == "no"
    assert "a has changed" in plain.said
    assert "Make this change (write_file a)?" in plain.said.splitlines()[-1]
    assert conversation.questions[0].answer("y") == "y or n, once more: the question has just been shown"
    clock.look()
    await plain.type("n")
    assert await three is False
    assert "four.py" in plain.said
    assert not await plain.type("y")  # typed ahead
    clock.look()
    assert await plain.type("y") == [("approve", "four")]


async def test_a_call_that_a_question_covered_is_shown_again_after_it(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    plain.take(call("one"))
    clock.look()
    asking = asyncio.ensure_future(plain.conversation.choose("Delete what?", ["nothing", "all"]))
    await asyncio.sleep(0)
    clock.look()
    await plain.type("1")
    assert await asking == "nothing"
    assert "one.py" in plain.said
    assert not await plain.type("y")
    clock.look()
    assert await plain.type("y") == [("approve", "one")]


@contextmanager
def at_an_inline_screen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[InlineScreen, Recorder]]:
    with create_pipe_input() as keyboard:
        monkeypatch.setattr(inline, "Keyboard", lambda _: keyboard)
        screen, session = InlineScreen(folder), Recorder()
        screen.show = lambda _: None  # type: ignore[method-assign]
        conversation = screen.conversation = TerminalConversation(folder, screen)
        conversation.executor = LocalExecutor(folder)
        conversation.session = session  # type: ignore[assignment]
        yield screen, session


async def test_keys_typed_ahead_in_a_list_or_another_program_decide_nothing(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_an_inline_screen(tmp_path, monkeypatch) as (screen, session):

        async def choose(*_: Any, **__: Any) -> str:
            screen.conversation.take(call("one"))
            clock.look()  # the list is still in front of the question
            return "chosen"

        monkeypatch.setattr(inline, "pick", choose)
        monkeypatch.setattr(inline, "get_typeahead", lambda _: [KeyPress("y")])
        await screen.pick("Which?", [])
        await asyncio.sleep(0)
        assert not session.made
        screen._prompt.default_buffer.reset()
        clock.look()
        assert screen._may_decide()

        def work() -> int:
            screen.conversation.take(settled("one"))
            screen.conversation.take(call("two"))
            clock.look()
            return 0

        monkeypatch.setattr(screen._keyboard, "lent", nullcontext, raising=False)
        await screen.lend(work)
        assert not screen._may_decide()
        clock.look()
        assert screen._may_decide()
        asking = asyncio.ensure_future(
            screen.conversation.confirm("write_file", {"path": "a", "content": ""}, "a has changed")
        )
        await asyncio.sleep(0)
        clock.look()
        assert screen._may_answer()
        monkeypatch.setattr(inline, "get_typeahead", lambda _: [])
        await screen.pick("Which?", [])
        assert not screen._may_answer()
        asking.cancel()


async def test_a_line_of_a_paste_or_a_pipe_is_no_command_of_the_user(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, message = Plain(tmp_path), asked.Target("message")
    command = "!touch owned"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    assert await plain.type(command) == [("send", command)]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    await plain.type(command)
    assert "Run this yourself, without the sandbox?\n$ touch owned" in plain.said
    plain.conversation.questions[0].asked_at = clock.now
    await plain.screen._take("yes", message)  # the next line of the same paste
    await plain.type("yes")  # that of another one, at once
    assert "nothing was decided" in plain.said
    assert not (tmp_path / "owned").exists()
    assert plain.conversation.questions
    clock.look()
    await plain.type("yes")
    assert not plain.conversation.questions
    await asyncio.gather(*plain.conversation._tasks)
    assert (tmp_path / "owned").exists()


async def test_a_call_decided_elsewhere_is_asked_about_with_its_own_words(clock: Clock, tmp_path: Path) -> None:
    plain = Plain(tmp_path)
    plain.take(on.CallDecidedElsewhere.of(call("one", requires_approval=False)))
    assert "Approved elsewhere" in plain.said
    clock.look()
    assert not await plain.type("e")
    assert not await plain.type("a")
    assert f"whatever wss://example.org says was approved elsewhere, in {tmp_path}" in plain.said
    assert await plain.type("y") == [("allow elsewhere",), ("approve", "one")]


async def test_a_reason_or_a_scope_typed_for_a_settled_call_decides_nothing(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal with a live input: the mode belongs to a call."""
    with create_pipe_input() as keyboard:
        monkeypatch.setattr(inline, "Keyboard", lambda _: keyboard)
        screen, session = InlineScreen(tmp_path), Recorder()
        screen.show = lambda _: None  # type: ignore[method-assign]
        conversation = screen.conversation = TerminalConversation(tmp_path, screen)
        conversation.executor = LocalExecutor(tmp_path)
        conversation.session = session  # type: ignore[assignment]
        for one in ("one", "two"):
            conversation.take(call(one, remember=REMEMBER))
        clock.look()
        screen._enter("always")
        conversation.take(settled("one"))
        screen.changed()
        assert not screen._mode
        clock.look()
        screen._enter("feedback")
        screen._prompt.default_buffer.text = "use b.py"
        typed_for = screen._typed_for
        conversation.take(
            call("three"),
        )
        conversation.take(settled("two"))
        screen.changed()
        assert not screen._mode
        screen._prompt.default_buffer.reset()
        screen._submit(None, "use b.py", typed_for)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert not session.made
        assert screen._prompt.default_buffer.text == "use b.py"  # not lost: the user sees where it goes


async def test_a_key_approves_nothing_of_which_a_part_is_folded(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first key shows the rest, in the terminal with a live input; another one, half a second later, decides."""
    content = "".join(f"line {number}\n" for number in range(500)) + "evil()\n"
    told = {"tool_name": "write_file", "arguments": {"path": "new.py", "content": content}, "remember": REMEMBER}
    with create_pipe_input() as keyboard:
        monkeypatch.setattr(inline, "Keyboard", lambda _: keyboard)
        for key in ("y", "a", "c-o"):
            screen, session, shown = InlineScreen(tmp_path), Recorder(), [""]
            rendered = screen._rendered
            screen._rendered = lambda card, shown=shown, rendered=rendered: shown.append(rendered(card)) or shown[-1]  # type: ignore[method-assign]
            conversation = screen.conversation = TerminalConversation(tmp_path, screen)
            conversation.executor = LocalExecutor(tmp_path)
            conversation.session = session  # type: ignore[assignment]
            conversation.take(replace(call("one"), **told))
            clock.look()
            assert "more lines (Ctrl-O shows them)" in shown[-1]
            press(screen, key)
            assert "evil()" in shown[-1]
            assert "more lines" not in shown[-1]
            press(screen, "y")
            assert not session.made
            assert not screen._mode, "nobody can have read it yet"
            clock.look()
            press(screen, "y")
            await asyncio.gather(*conversation._tasks)
            assert session.made == [("approve", "one")]
            press(screen, "c-o")
            assert shown[-1].count("evil()") == 1, "it was unfolded once"


# -- an editor's window ----------------------------------------------------------------------------------------------


def lying(tool: str, arguments: Mapping[str, Any], **frame: Any) -> on.ToolCall:
    told = {"title": "Read README.md", "kind": "read", "paths": ["README.md"], **frame}
    return on.ToolCall(call_id="c", tool_name=tool, requires_approval=True, arguments=dict(arguments), frame=told)


DIFF = "--- a/.git/hooks/x\n+++ b/.git/hooks/x\n@@ -1 +1 @@\n-a\n+b\n"


async def test_a_tools_question_that_comes_during_a_rejection_is_not_answered_by_it(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_pipe_input() as keys:
        monkeypatch.setattr("codelab_client.terminal.inline.Keyboard", lambda _: keys)
        screen, session = InlineScreen(tmp_path), Recorder()
        screen.show = lambda _: None  # type: ignore[method-assign]
        conversation = screen.conversation = TerminalConversation(tmp_path, screen)
        conversation.executor = LocalExecutor(tmp_path)
        conversation.session = session  # type: ignore[assignment]
        conversation.take(call("one"))
        clock.look()
        screen._enter("feedback")
        asked = asyncio.ensure_future(conversation.confirm("write_file", {"path": "a", "content": ""}, "a has changed"))
        await asyncio.sleep(0)
        assert not screen._mode
        conversation.questions[0].asked_at = clock.now
        assert not screen._may_answer(), "nobody has read it yet"
        clock.look()
        assert screen._may_answer()
        screen._submit(None, "y", None)  # type: ignore[arg-type]
        assert await asked
        assert not session.made, "the call was not rejected for the reason y"
        assert conversation.approvals[0].call_id == "one"


@pytest.mark.parametrize(
    ("tool", "arguments", "title", "kind", "places"),
    [
        ("run_command", {"command": "rm -rf ."}, "rm -rf .", "execute", []),
        ("run_command", {"command": "rm -rf .", "cwd": "src"}, "In src: rm -rf .", "execute", []),
        ("delete_file", {"path": "src/a.py"}, "Delete src/a.py", "delete", ["src/a.py"]),
        ("apply_patch", {"diff": DIFF}, "Patch .git/hooks/x", "edit", [".git/hooks/x"]),
        ("shop.pay", {"amount": 1}, "shop.pay", "other", []),
    ],
)
def test_an_editor_shows_the_call_and_not_what_the_frame_says_about_it(
    tool: str, arguments: dict[str, Any], title: str, kind: str, places: list[str], tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []

    async def request(_: str, params: dict[str, Any]) -> dict[str, Any]:
        seen.append(params["toolCall"])
        return {"outcome": {"outcome": "selected", "optionId": "reject_once"}}

    permissions = Permissions(SimpleNamespace(request=request), "s", Folders(tmp_path))  # type: ignore[arg-type]
    run(permissions.decide(lying(tool, arguments), []))
    assert (seen[0]["title"], seen[0]["kind"]) == (title, kind)
    assert seen[0]["locations"] == [{"path": str(tmp_path / place)} for place in places]
    assert tool_calls.announced(tool, arguments, Folders(tmp_path))["title"] == title


@pytest.mark.parametrize("scope", ["session", "user"])
def test_an_editor_that_chooses_by_kind_gets_the_narrow_rule(scope: Any, tmp_path: Path) -> None:
    offered: list[dict[str, Any]] = []

    async def request(_: str, params: dict[str, Any]) -> dict[str, Any]:
        offered.extend(params["options"])
        chosen = [one for one in params["options"] if one["kind"] == "allow_always"][-1]
        return {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}

    asked_about = on.ToolCall(
        call_id="c",
        tool_name="write_file",
        requires_approval=True,
        arguments={"path": "a.py", "content": ""},
        remember={"rule": "nothing at all", "scopes": ["session", "user"]},
    )
    permissions = Permissions(SimpleNamespace(request=request), "s", Folders(tmp_path))  # type: ignore[arg-type]
    decision = run(permissions.decide(asked_about, [], scope))
    assert decision.approves
    assert decision.always
    assert [one["kind"] for one in offered] == ["allow_once", "allow_always", "reject_once"]
    where = "in this session" if scope == "session" else "in all my sessions"
    assert offered[1]["name"] == f"Always {where}: write_file a.py"  # the call's own words, not the server's


def test_a_rule_for_all_sessions_is_a_setting_of_its_own() -> None:
    session: Any = SimpleNamespace(info=None, agent="coder", mode="code")
    option = next(one for one in settings.options(session) if one["id"] == settings.REMEMBER)
    assert option["currentValue"] == "session"
    assert settings.scope("user") == "user"
    with pytest.raises(RpcError):
        settings.scope("everywhere")
