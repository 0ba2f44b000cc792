"""What a project says in `.codelab`, in the clients that obey it, on the running system."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_client.own_tools import WithOwnTools
from codelab_client.project.hooks import ProjectHooks, WithHooks
from codelab_client.project.permissions import FILE, ProjectPermissions
from codelab_client.session import events as on
from codelab_client.session.events import CallDecidedElsewhere
from codelab_local import LocalCloud

from tests.client.conftest import Codelab, Open
from tests.client.editors import Editor, allow
from tests.client.executing import CountingExecutor
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

READ = call("read_file", path="secrets/key")
WRITE = call("write_file", path="docs/a.md", content="x")
DONE = Says("Done")


def permit(folder: Path, text: str) -> ProjectPermissions:
    (folder / ".codelab").mkdir(exist_ok=True)
    (folder / FILE).write_text(text)
    return ProjectPermissions.load(folder)


@pytest.mark.parametrize("effect", ["deny", "ask", ""])
async def test_a_call_that_needs_no_approval_is_denied_or_asked_about(
    new_session: Open, model: ScriptedModel, tmp_path: Path, effect: str
) -> None:
    permissions = permit(tmp_path, f'[[{effect}]]\ntool = "*"\npath = "secrets/**"\n' if effect else "")
    script = model.script(f"project-{effect}", Says("", [READ]), Says("", [READ]), DONE)
    executor, asked = CountingExecutor(), list[str]()
    async with new_session(executor, restrictions=permissions) as session:
        async for event in session.prompt(script):
            if isinstance(event, CallDecidedElsewhere):
                asked.append(event.asked_by)
                await (session.reject if len(asked) == 1 else session.approve)(event.call_id)
    told = [request["messages"][-1]["content"] for request in model.requests[f"project-{effect}"][1:]]
    if effect == "deny":
        assert not executor.calls
        assert all("deny * path=secrets/**" in text for text in told)
    elif effect == "ask":
        assert asked == ["ask * path=secrets/**"] * 2
        assert len(executor.calls) == 1
        assert "The user did not let the call run" in told[0]
    else:
        assert len(executor.calls) == 2


async def test_neither_a_mode_nor_a_rule_answers_for_the_user(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    permissions = permit(tmp_path, '[[ask]]\ntool = "write_file"\n')
    script = model.script("project-mode", Says("", [WRITE]), DONE)
    asked = list[on.Event]()
    async with new_session(CountingExecutor(), restrictions=permissions) as session:
        await session.configure(mode="autonomous")
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                asked.append(event)
                await session.approve(event.call_id)
    assert [type(event) for event in asked] == [CallDecidedElsewhere]


async def test_a_hook_denies_a_call_and_adds_to_a_result(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    (tmp_path / ".codelab").mkdir()
    (tmp_path / ".codelab" / "hooks.toml").write_text(
        '[[before_call]]\ntool = "list_files"\ncommand = ["sh", "-c", "echo not today >&2; exit 2"]\n\n'
        '[[after_call]]\ntool = "read_file"\ncommand = ["grep", "-o", "content of [a-z/]*"]\n'
    )
    hooks = ProjectHooks(tmp_path, tmp_path / "state", lambda _: None)
    assert await hooks.trust(await hooks.subjects())
    executor = CountingExecutor()
    script = model.script("project-hooks", Says("", [call("list_files", path=".")]), Says("", [READ]), DONE)
    async with new_session(WithHooks(WithOwnTools(executor, []), hooks)) as session:
        async for _ in session.prompt(script):
            pass
    denied, told = (request["messages"][-1]["content"] for request in model.requests["project-hooks"][1:])
    assert "not today" in denied
    assert "PERMISSION_DENIED" in denied
    assert told.count("content of secrets/key") == 2
    assert [each.tool_name for each in executor.calls] == ["read_file"]


def test_exec_obeys_what_narrows_and_nothing_that_allows(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    script = model.script("project-exec", Says("", [WRITE]), DONE)
    permit(folder, '[[allow]]\ntool = "write_file"\npath = "docs/**"\n')
    assert codelab("exec", script).returncode == 5
    assert not (folder / "docs").exists()
    policy = folder.parent / "policy.toml"
    policy.write_text('[[allow]]\ntool = "write_file"\npath = "docs/**"\n')
    permit(folder, '[[deny]]\ntool = "write_file"\npath = "docs/**"\n')
    denied = codelab("exec", script, "--policy", str(policy))
    assert (denied.returncode, "deny write_file" in denied.stderr) == (5, True)
    permit(folder, '[[ask]]\ntool = "*"\npath = "docs/**"\n')
    assert codelab("exec", script).returncode == 5
    assert codelab("exec", script, "--policy", str(policy)).returncode == 0
    (folder / FILE).write_text("deny = [")
    broken = codelab("exec", script, "--policy", str(policy))
    assert (broken.returncode, FILE in broken.stderr) == (2, True)


def test_exec_sends_what_a_trusted_file_says(
    codelab: Codelab, environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    script = model.script("project-say", DONE)
    command = folder / ".claude" / "commands" / "review.md"
    command.parent.mkdir(parents=True)
    command.write_text(f"{script} Review $1")
    refused = codelab("exec", "/review src")
    assert (refused.returncode, "/review in `codelab` shows it" in refused.stderr) == (2, True)
    own = Path(environment["XDG_CONFIG_HOME"]) / "codelab" / "commands" / "mine.md"
    own.parent.mkdir(parents=True)
    own.write_text(f"{script} Mine $ARGUMENTS")
    assert codelab("exec", "/mine src").stdout == "Done\n"
    assert "Mine src" in model.requests["project-say"][0]["messages"][-1]["content"]


@pytest.fixture(scope="module")
def editor(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    state = str(tmp_path_factory.mktemp("state"))
    variables = {"CODELAB_URL": cloud.http, "XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state, "CODELAB_TOKEN": ""}
    with Editor({**os.environ, **variables}) as editor:
        yield editor


def test_an_editors_user_trusts_what_is_allowed_by_its_code(editor: Editor, folder: Path, model: ScriptedModel) -> None:
    deny = '[[deny]]\ntool = "write_file"\npath = "secrets/**"\n'
    permit(folder, f'{deny}[[allow]]\ntool = "write_file"\npath = "docs/**"\n')
    secret = call("write_file", path="secrets/a", content="x")
    script = model.script("project-acp", Says("", [secret]), Says("", [WRITE]), DONE)
    editor.renew({"session/request_permission": allow})
    session = editor.new(folder)
    editor.prompt(session, script)
    assert len(editor.asked) == 1
    assert not (folder / "secrets").exists()
    editor.prompt(session, "/permissions")
    assert "allow write_file path=docs/**" in editor.text
    code = editor.text.rpartition("/permissions trust ")[2].partition("`")[0]
    editor.renew(None)
    editor.prompt(session, "/permissions trust 00000000")
    assert "not what the project allows" in editor.text
    editor.prompt(session, f"/permissions trust {code}")
    assert "trusted as it is" in editor.text
    again = model.script("project-acp-2", Says("", [WRITE]), DONE)
    editor.prompt(session, again)
    assert not editor.asked
    assert (folder / "docs" / "a.md").read_text() == "x"


def test_an_editors_menu_has_the_commands_of_files(editor: Editor, folder: Path, model: ScriptedModel) -> None:
    script = model.script("project-menu", DONE, DONE)
    (folder / ".codelab" / "commands").mkdir(parents=True)
    (folder / ".codelab" / "commands" / "review.md").write_text(
        f"---\ndescription: Review a folder\nargument-hint: FOLDER\n---\n{script} Review $1"
    )
    editor.renew({"session/request_permission": lambda params: allow(params, "none")})
    session = editor.new(folder)
    assert editor.prompt(session, "/review src") == "end_turn"
    (_, asked), *_ = editor.asked
    assert f"{script} Review src" in asked["toolCall"]["content"][0]["content"]["text"]
    assert not model.requests["project-menu"]
    menu = editor.of_kind("available_commands_update")[-1]["availableCommands"]
    assert {
        "name": "review",
        "description": "Review a folder (.codelab/commands/review.md)",
        "input": {"hint": "FOLDER"},
    } in menu
    editor.answers["session/request_permission"] = lambda params: allow(params, "0")
    editor.prompt(session, "/review src")
    editor.asked.clear()
    editor.prompt(session, "/review docs")
    assert not editor.asked
    sent = [request["messages"][-1]["content"] for request in model.requests["project-menu"]]
    assert ["Review src" in sent[0], "Review docs" in sent[1]] == [True, True]


def test_a_terminals_user_trusts_what_is_allowed_and_revokes_it(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    permit(folder, '[[allow]]\ntool = "write_file"\npath = "docs/**"\n\n[[deny]]\ntool = "delete_file"\n')
    delete = call("delete_file", path="docs/a.md")
    script = model.script("project-term", Says("", [WRITE]), Says("", [delete]), DONE)
    review = model.script("project-review", Says("Reviewed"))
    (folder / ".codelab" / "commands").mkdir()
    (folder / ".codelab" / "commands" / "review.md").write_text(
        f"---\ndescription: Review a folder\n---\n{review} Review $1"
    )
    with Terminal(CODELAB, environment, folder) as terminal:
        terminal.expect("allow write_file path=docs/**")
        terminal.expect("Your choice")
        time.sleep(0.7)  # an answer counts when the question has been on the screen for long enough
        terminal.type("1\r")
        until(lambda: "Your choice" not in terminal.shown())
        terminal.type(f"{script}\r")
        terminal.expect("Done")
        assert (folder / "docs" / "a.md").read_text() == "x"
        assert "The project's permissions deny this call" in terminal.shown()
        terminal.type("/permissions\r")
        terminal.expect("trusted)")
        terminal.expect("Enter revokes it")
        terminal.type("\r")
        terminal.expect("Revoked.")
        terminal.clear()
        terminal.type("/revi")
        terminal.expect("Review a folder (.codelab")
        terminal.type("ew src\r")
        terminal.expect("Review src")
        terminal.expect("Your choice")
        time.sleep(0.7)
        terminal.type("2\r")
        terminal.expect("Reviewed")
