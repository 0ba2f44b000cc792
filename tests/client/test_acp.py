"""`codelab acp`, as an editor drives it."""

import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from codelab_client.acp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from codelab_client.sandbox import choose
from codelab_local import LocalCloud

from tests.client.editors import CODELAB, Editor, Refusal, allow, reject
from tests.client.mcp_config import served
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import SUMMARY, Says, call
from tests.fakes.model.server import ScriptedModel
from tests.sampling import sampled
from tests.waiting import until

MCP_SERVER = Path(__file__).with_name("mcp_server.py")
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
READ = call("read_file", path="a.py")
WRITE = call("write_file", path="a.py", content="new\n")
RUN = call("run_command", command="echo $((6 * 7))")
DONE = Says("Done")
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}

#: What only newer editors offer; `plan` is not stable yet.
NEW = {
    "elicitation": {"form": {}},
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "plan": {},
}

Open = Callable[..., Editor]


@pytest.fixture(scope="module")
def open_editor(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Gives an editor with an agent that has served another test: starting one takes most of a test's time."""
    state = str(tmp_path_factory.mktemp("state"))
    environment = {**os.environ, "CODELAB_URL": cloud.http, "XDG_STATE_HOME": state, "CODELAB_TOKEN": ""}
    kept: dict[str, Editor] = {}

    def give(answers: Any = None, offers: Any = None, name: str = "") -> Editor:
        key = f"{name}{offers}"
        if key in kept and kept[key].process.poll() is not None:
            kept.pop(key).__exit__()
        if key not in kept:
            kept[key] = Editor(environment, offers=offers).__enter__()
        kept[key].renew(answers)
        return kept[key]

    yield give
    for editor in kept.values():
        editor.__exit__()


def test_a_prompt_streams_the_answer_and_shows_what_the_agent_does(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("print(1)")
    plan = call("update_plan", items=[{"text": "Look", "status": "in_progress"}])
    script = model.script("acp-read", Says("I plan", [plan]), Says("I look", [READ]), Says("It prints 1"))
    editor = open_editor()
    session = editor.new(folder)
    assert editor.of_session(session) == []
    assert editor.prompt(session, script) == "end_turn"
    assert editor.text == "I plan\n\nI lookIt prints 1"
    shown = editor.call("Read a.py")
    assert (shown["kind"], shown["status"]) == ("read", "completed")
    assert shown["locations"] == [{"path": str(folder / "a.py")}]
    assert "print(1)" in shown["content"][0]["content"]["text"]
    assert editor.of_kind("plan")[0]["entries"] == [{"content": "Look", "priority": "medium", "status": "in_progress"}]
    assert editor.of_kind("session_info_update")[-1]["title"]
    assert editor.of_session(session)[0]["sessionUpdate"] == "available_commands_update"


def test_a_change_is_shown_as_a_diff_before_it_is_allowed(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("old\n")
    seen = []

    def decide(params: dict[str, Any]) -> dict[str, Any]:
        seen.append((folder / "a.py").read_text())
        return allow(params)

    editor = open_editor(answers={"session/request_permission": decide})
    editor.prompt(editor.new(folder), model.script("acp-write", Says("", [WRITE]), DONE))
    diff = {"type": "diff", "path": str(folder / "a.py"), "oldText": "old\n", "newText": "new\n"}
    (_, asked), *_ = editor.asked
    assert asked["toolCall"]["content"] == [diff]
    assert [one["kind"] for one in asked["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
    ]
    assert (seen, (folder / "a.py").read_text()) == (["old\n"], "new\n")
    assert editor.call("Write a.py")["content"] == [diff]


def test_a_command_is_shown_in_full_and_a_rejection_reaches_the_model(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    command = "echo " + "long " * 2_000 + "&& \u202erm x"
    script = model.script("acp-reject", Says("", [call("run_command", command=command)]), DONE)
    editor = open_editor(answers={"session/request_permission": reject})
    assert editor.prompt(editor.new(folder), script) == "end_turn"
    (_, asked), *_ = editor.asked
    text = asked["toolCall"]["content"][0]["content"]["text"]
    assert "long " * 2_000 + "&& <U+202E>rm x" in text
    assert asked["toolCall"]["rawInput"] == {"command": command}
    assert "rejected" in model.requests["acp-reject"][1]["messages"][-1]["content"]
    assert editor.call(asked["toolCall"]["title"])["status"] == "failed"


def test_always_is_a_rule_that_the_user_saw(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    script = model.script("acp-always", Says("", [WRITE]), Says("", [WRITE]), DONE)
    editor = open_editor(answers={"session/request_permission": lambda params: allow(params, "allow_always")})
    session = editor.new(folder)
    editor.prompt(session, script)
    assert len(editor.asked) == 1
    option = next(one for one in editor.asked[0][1]["options"] if one["optionId"] == "allow_always")
    assert "a.py" in option["name"]
    editor.prompt(session, "/rules")
    assert "allow write_file" in editor.text or "approve write_file" in editor.text


def test_notes_are_kept_listed_and_taken_away(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    editor = open_editor()
    session = editor.new(folder)
    editor.prompt(session, "/remember Use `tabs`.")
    editor.prompt(session, model.script("notes-acp", Says("Yes.")))
    assert "Use `tabs`." in str(model.requests["notes-acp"][0]["messages"])
    editor.prompt(session, "/notes")
    assert "1. `` Use `tabs`. `` (.codelab/notes.md)" in editor.text
    editor.prompt(session, "/notes forget 2")
    editor.prompt(session, "/notes forget 1")
    assert editor.text.endswith("`/notes` numbers them.\n\nTaken away.\n\n")
    assert (folder / ".codelab" / "notes.md").read_text() == ""


def test_an_allowed_command_runs_again_in_the_sandbox_until_what_it_names_changes(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    if not choose().sandbox.guarantees.no_network:
        pytest.skip("no sandbox here holds what a command does: install bubblewrap")
    (folder / "run.sh").write_text("echo first\n")
    run = call("run_command", command="sh run.sh")
    script = model.script("acp-allowed", Says("", [run]), Says("", [run]), DONE)
    editor = open_editor({"session/request_permission": lambda params: allow(params, "allow_always")})
    session = editor.new(folder)
    editor.prompt(session, script)
    ((_, asked),) = editor.asked
    button = next(one["name"] for one in asked["options"] if one["kind"] == "allow_always")
    assert button.startswith("Always in this session: run_command sh run.sh")
    assert button.endswith("in the sandbox, until what it names or a protected file changes")
    editor.prompt(session, "/rules")
    assert "allow run_command sh run.sh" in editor.text
    rule_id = editor.text.partition("- allowed-")[2].split()[0]
    (folder / "run.sh").write_text("echo second\n")
    editor.asked.clear()
    editor.prompt(session, model.script("acp-changed", Says("", [run]), DONE))
    assert len(editor.asked) == 1
    assert "Allowed until something changes that it runs" in editor.text
    assert "second" in model.requests["acp-changed"][1]["messages"][-1]["content"]
    editor.asked.clear()
    editor.prompt(session, f"/rules revoke allowed-{rule_id}")
    editor.prompt(session, model.script("acp-revoked", Says("", [run]), DONE))
    assert len(editor.asked) == 1
    editor.request("session/set_mode", sessionId=session, modeId="autonomous")
    editor.renew({"session/request_permission": allow})
    editor.prompt(session, model.script("acp-autonomous", Says("", [run]), DONE))
    ((_, asked),) = editor.asked
    assert [one["kind"] for one in asked["options"]] == ["allow_once", "reject_once"]


def test_without_a_terminal_commands_run_here(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    editor = open_editor(answers={"session/request_permission": allow})
    editor.prompt(editor.new(folder), model.script("acp-run", Says("", [RUN]), DONE))
    shown = editor.call("echo $((6 * 7))")
    assert (shown["kind"], shown["status"]) == ("execute", "completed")
    assert "42" in shown["content"][0]["content"]["text"]
    assert "42" in model.requests["acp-run"][1]["messages"][-1]["content"]


def test_the_editors_unsaved_text_is_read_and_its_buffer_written(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("saved\n")
    written = []

    def write(params: dict[str, Any]) -> dict[str, Any]:
        written.append((params["path"], params["content"]))
        Path(params["path"]).write_text(params["content"])
        return {}

    answers = {
        "fs/read_text_file": lambda _: {"content": "not saved\n"},
        "fs/write_text_file": write,
        "session/request_permission": allow,
    }
    editor = open_editor(answers=answers, offers=FILES)
    script = model.script("acp-buffer", Says("", [READ]), Says("", [WRITE]), DONE)
    editor.prompt(editor.new(folder), script)
    assert "not saved" in model.requests["acp-buffer"][1]["messages"][-1]["content"]
    assert written == [(str(folder / "a.py"), "new\n")]
    asked = next(params for method, params in editor.asked if method == "session/request_permission")
    assert asked["toolCall"]["content"][0]["oldText"] == "not saved\n"


def test_commands_run_in_the_editors_terminal(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    created = []

    def create(params: dict[str, Any]) -> dict[str, Any]:
        created.append((params["command"], params["args"], params["cwd"]))
        return {"terminalId": "t1"}

    answers = {
        "session/request_permission": allow,
        "terminal/create": create,
        "terminal/wait_for_exit": lambda _: {"exitCode": 3},
        "terminal/output": lambda _: {"output": "it failed", "truncated": False, "exitStatus": {"exitCode": 3}},
        "terminal/release": lambda _: {},
    }
    editor = open_editor(answers=answers, offers={"terminal": True})
    editor.prompt(editor.new(folder), model.script("acp-terminal", Says("", [RUN]), DONE))
    assert created == [("/bin/sh", ["-c", "echo $((6 * 7))"], str(folder))]
    assert editor.call("echo $((6 * 7))")["content"] == [{"type": "terminal", "terminalId": "t1"}]
    assert "terminal/release" in [method for method, _ in editor.asked]
    assert "it failed" in model.requests["acp-terminal"][1]["messages"][-1]["content"]


def test_files_links_and_images_come_with_the_prompt(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    script = model.script("acp-content", DONE)
    embedded = {"uri": f"file://{folder}/b%20c.py", "text": "x = 'embedded'"}
    editor = open_editor()
    editor.prompt(
        editor.new(folder),
        f"{script} What is in ",
        {"type": "resource_link", "name": "a.py", "uri": f"file://{folder}/a.py"},
        {"type": "resource", "resource": embedded},
        {"type": "image", "mimeType": "image/png", "data": PNG},
    )
    said = json.dumps(model.requests["acp-content"][0]["messages"][-1])
    assert "What is in @a.py@b c.py" in said
    assert "x = 'embedded'" in said
    assert f"data:image/png;base64,{PNG}" in said


def test_an_image_that_is_none_is_refused(open_editor: Open, folder: Path) -> None:
    editor = open_editor()
    session = editor.new(folder)
    with pytest.raises(Refusal) as refused:
        editor.prompt(session, "Look", {"type": "image", "mimeType": "image/png", "data": "AAAA"})
    assert refused.value.error["data"]["error_code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize("state", sampled(["executing", "silent", "answering", "asking", "waiting"]))
def test_cancel_ends_the_turn_in_every_state(open_editor: Open, folder: Path, model: ScriptedModel, state: str) -> None:
    name = f"acp-cancel-{state}"
    says = {
        "silent": Says("Late", silence=30),
        "answering": Says("word " * 2_000, delay=0.05),
        "asking": Says("", [WRITE]),
        "executing": Says("", [call("run_command", command="sleep 30")]),
        "waiting": Says("word " * 2_000, delay=0.05),
    }[state]
    script = model.script(name, says, DONE)
    asks = {"asking": lambda _: None}.get(state, allow)
    editor = open_editor(answers={"session/request_permission": asks})
    session = editor.new(folder)

    def prompt(text: str) -> int:
        return editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    prompts = [prompt(script)]
    if state == "waiting":
        prompts.append(prompt("not sent"))
    if state == "silent":
        until(lambda: model.requests[name])
    elif state == "executing":
        editor.until(lambda message: message.get("params", {}).get("update", {}).get("status") == "in_progress")
    elif state == "asking":
        editor.until(lambda message: message.get("method") == "session/request_permission")
    else:
        editor.until(lambda message: "agent_message_chunk" in str(message))
    editor.notify("session/cancel", sessionId=session)
    for request_id in prompts:
        assert editor.answer_to(request_id) == {"stopReason": "cancelled"}
    assert not (folder / "a.py").exists()
    if state == "asking":
        assert any(message.get("method") == "$/cancel_request" for message in editor.messages)
    assert editor.prompt(session, model.script(f"{name}-next", Says("Again"))) == "end_turn"
    assert editor.text.endswith("Again")


def test_a_session_is_listed_loaded_resumed_closed_and_deleted(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("x")
    first = open_editor()
    session = first.new(folder)
    first.prompt(session, model.script("acp-history", Says("I look", [READ]), Says("Answer")))
    assert first.request("session/close", sessionId=session) == {}
    with pytest.raises(Refusal) as closed:
        first.prompt(session, "hi")
    assert closed.value.code == RESOURCE_NOT_FOUND
    second = open_editor(name="second")
    second.initialize()
    until(lambda: session in str(second.request("session/list", cwd=str(folder))))
    assert session not in str(second.request("session/list", cwd="/elsewhere"))
    loaded = second.request("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    assert loaded["modes"]["currentModeId"] == "code"
    assert second.text == "I lookAnswer"
    assert "[[acp-history]]" in second.of_kind("user_message_chunk")[0]["content"]["text"]
    assert second.call("Read a.py")["status"] == "completed"
    second.messages.clear()
    second.request("session/resume", sessionId=session, cwd=str(folder))
    assert second.text == ""
    assert second.of_kind("user_message_chunk") == second.of_kind("tool_call") == []
    second.prompt(session, model.script("acp-again", Says("More")))
    assert "[[acp-history]]" in str(model.requests["acp-again"][0]["messages"])
    assert second.request("session/delete", sessionId=session) == {}
    assert second.request("session/delete", sessionId=session) == {}
    with pytest.raises(Refusal) as gone:
        second.request("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    assert gone.value.code == RESOURCE_NOT_FOUND


def test_the_user_accepts_a_plan(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    plan = call("propose_plan", steps=["Write a.py", "Test it"], explanation="It is missing.")
    script = model.script("acp-plan", Says("", [plan]), Says("Carried out."))
    editor = open_editor(answers={"session/request_permission": lambda params: allow(params, "allow_always")})
    session = editor.new(folder)
    editor.request("session/set_mode", sessionId=session, modeId="plan")
    editor.prompt(session, script)
    (asked,) = [params for method, params in editor.asked if method == "session/request_permission"]
    assert asked["toolCall"]["kind"] == "switch_mode"
    assert asked["toolCall"]["content"][0]["content"]["text"] == "It is missing.\n\n1. Write a.py\n2. Test it"
    assert [entry["content"] for entry in editor.of_kind("plan")[-1]["entries"]] == ["Write a.py", "Test it"]
    assert [update["currentModeId"] for update in editor.of_kind("current_mode_update")] == ["plan", "autonomous"]


def test_settings_are_config_options_and_modes(open_editor: Open, folder: Path) -> None:
    editor = open_editor()
    editor.initialize()
    made = editor.request("session/new", cwd=str(folder), mcpServers=[])
    session, options = made["sessionId"], {one["id"]: one for one in made["configOptions"]}
    assert [one["id"] for one in made["modes"]["availableModes"]] == ["ask", "plan", "manual", "code", "autonomous"]
    assert made["modes"]["currentModeId"] == options["mode"]["currentValue"] == "code"
    assert {one["value"] for one in options["agent"]["options"]} >= {"coder", "architect"}
    assert [one["value"] for one in options["model"]["options"]] == ["scripted", "other"]
    for config, value in (
        ("mode", "manual"),
        ("agent", "architect"),
        ("thinking", "high"),
        ("model", "other"),
        ("model", "scripted"),
    ):
        changed = editor.request("session/set_config_option", sessionId=session, configId=config, value=value)
        assert {one["id"]: one["currentValue"] for one in changed["configOptions"]}[config] == value
    editor.request("session/set_mode", sessionId=session, modeId="plan")
    if not any(update["currentModeId"] == "plan" for update in editor.of_kind("current_mode_update")):
        editor.until(lambda message: "'currentModeId': 'plan'" in str(message))
    for config, value in (("mode", "yolo"), ("agent", "nobody"), ("nothing", "x"), ("agent", 3)):
        with pytest.raises(Refusal) as refused:
            editor.request("session/set_config_option", sessionId=session, configId=config, value=value)
        assert refused.value.code == INVALID_PARAMS


def test_a_turn_that_fails_is_an_error_with_the_servers_code(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    editor = open_editor()
    session = editor.new(folder)
    with pytest.raises(Refusal) as failed:
        editor.prompt(session, model.script("acp-fail", Says(status=400)))
    assert (failed.value.code, failed.value.error["data"]["error_code"]) == (INTERNAL_ERROR, "LLM_ERROR")
    assert editor.prompt(session, model.script("acp-after", DONE)) == "end_turn"


def test_undo_takes_back_what_the_turn_did(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    (folder / "a.py").write_text("old\n")
    editor = open_editor(answers={"session/request_permission": allow})
    session = editor.new(folder)
    editor.prompt(session, model.script("acp-undo", Says("", [WRITE]), DONE))
    assert editor.prompt(session, "/undo") == "end_turn"
    assert (folder / "a.py").read_text() == "old\n"
    assert len(model.requests["acp-undo"]) == 2
    editor.prompt(session, "/redo")
    assert (folder / "a.py").read_text() == "new\n"
    (folder / "a.py").write_text("mine")
    editor.prompt(session, "/undo")
    assert "were changed since:\n- `a.py`" in editor.text
    assert (folder / "a.py").read_text() == "mine"
    editor.prompt(session, "/undo all")
    assert (folder / "a.py").read_text() == "old\n"


def test_going_back_shows_what_it_does_and_goes_on_in_a_session_of_its_own(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("old\n")
    editor = open_editor(answers={"session/request_permission": allow})
    session = editor.new(folder)
    editor.prompt(session, model.script("acp-back-1", DONE))
    editor.prompt(session, model.script("acp-back-2", Says("", [WRITE]), DONE))
    editor.prompt(session, "/rewind")
    assert "1. [[acp-back-2]]\n2. [[acp-back-1]]" in editor.text
    editor.prompt(session, "/rewind 1 both 00000000")
    assert "so nothing has changed" in editor.text
    assert "1 file changed by edits: restored:\n- `a.py`" in editor.text
    assert (folder / "a.py").read_text() == "new\n"
    (command,) = set(re.findall(r"/rewind 1 both [0-9a-f]{8}(?=`)", editor.text))
    editor.prompt(session, command)
    assert (folder / "a.py").read_text() == "old\n"
    (copy,) = re.findall(r"list of sessions: `(.+?)`", editor.text)
    assert copy in [one["sessionId"] for one in editor.request("session/list", cwd=str(folder))["sessions"]]
    editor.request("session/load", sessionId=copy, cwd=str(folder), mcpServers=[])
    editor.prompt(copy, model.script("acp-back-3", DONE))
    assert "acp-back-1" in str(model.requests["acp-back-3"][0])
    assert "acp-back-2" not in str(model.requests["acp-back-3"][0])
    editor.prompt(session, "/redo")
    assert (folder / "a.py").read_text() == "new\n"


def test_undo_takes_back_what_was_written_through_the_editor(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("saved\n")

    def write(params: dict[str, Any]) -> dict[str, Any]:
        Path(params["path"]).write_text(params["content"])
        return {}

    answers = {
        "session/request_permission": allow,
        "fs/write_text_file": write,
        "fs/read_text_file": lambda _: {"content": "not saved\n"},
    }
    editor = open_editor(answers=answers, offers=FILES)
    session = editor.new(folder)
    editor.prompt(session, model.script("acp-undo-editor", Says("", [WRITE]), DONE))
    assert (folder / "a.py").read_text() == "new\n"
    editor.prompt(session, "/undo")
    assert (folder / "a.py").read_text() == "not saved\n"  # What the call has replaced.


def test_at_the_end_of_stdin_the_turn_is_stopped_and_the_agent_ends(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    script = model.script("acp-eof", Says("word " * 2_000, delay=0.05))
    editor = open_editor()
    session = editor.new(folder)
    editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": script}])
    editor.until(lambda message: "agent_message_chunk" in str(message))
    assert editor.process.stdin is not None
    editor.process.stdin.close()
    assert editor.process.wait(30) == 0
    until(lambda: "acp-eof" in model.hung_up)


def test_the_editors_mcp_servers_are_the_agents_tools(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    server = {"name": "my server", "command": sys.executable, "args": [str(MCP_SERVER)], "env": []}
    broken = {"name": "broken", "command": "/nonexistent", "args": [], "env": []}
    editor = open_editor()
    session = editor.new(folder, mcpServers=[server, broken])
    until(lambda: editor.prompt(session, "/mcp") == "end_turn" and "my_server runs" in editor.text)
    script = model.script("acp-mcp", Says("", [call("my_server.echo", text="from the server")]), DONE)
    assert editor.prompt(session, script) == "end_turn"
    assert "from the server" in model.requests["acp-mcp"][1]["messages"][-1]["content"]
    assert "broken" in editor.text
    for words, told in (
        ("tools my_server e*", "Of my_server the agent gets echo, and not"),
        ("tools none", "none does not run"),
    ):
        assert editor.prompt(session, f"/mcp {words}") == "end_turn"
        assert told in editor.text
    wrong: list[Any] = [{"name": "x"}, {"name": "x", "type": "sse", "url": "http://x", "headers": []}, {}]
    for one in wrong:
        with pytest.raises(Refusal) as refused:
            editor.new(folder, mcpServers=[one])
        assert refused.value.code == INVALID_PARAMS


def test_what_another_window_says_is_shown(
    open_editor: Open, folder: Path, model: ScriptedModel, cloud: LocalCloud
) -> None:
    editor = open_editor()
    session = editor.new(folder)
    with Ide(cloud.url(session, extensions=1, viewer=1)) as window:
        window.ask(model.script("acp-window", Says("For both")))
        editor.until(lambda _: editor.text == "For both")  # `session_info` may tell the title before that
    assert "[[acp-window]]" in editor.of_kind("user_message_chunk")[0]["content"]["text"]
    assert editor.text == "For both"


def test_a_cancelled_prompt_that_waits_for_another_window_is_withdrawn(
    open_editor: Open, folder: Path, model: ScriptedModel, cloud: LocalCloud
) -> None:
    editor = open_editor()
    session = editor.new(folder)
    released = threading.Event()
    with Ide(cloud.url(session, extensions=1, viewer=1)) as window:
        window.say(model.script("acp-theirs", Says("Theirs", until=released)))
        until(lambda: model.requests["acp-theirs"])
        script = model.script("acp-mine", Says("Mine"))
        prompt = editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": script}])
        window.expect("queued")
        editor.notify("session/cancel", sessionId=session)
        assert editor.answer_to(prompt) == {"stopReason": "cancelled"}
        released.set()
        window.expect("turn_end", reason="completed")
        window.idle()
    assert model.requests["acp-mine"] == []


def test_a_running_turn_goes_on_in_another_editor(
    open_editor: Open, environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    script = model.script("acp-moves", Says("I write", [WRITE]), Says("Written"))
    with Editor(environment, answers={"session/request_permission": lambda _: None}) as first:
        session = first.new(folder)
        first.prompt(session, model.script("acp-before", Says("Before")))
        first.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": script}])
        first.until(lambda message: message.get("method") == "session/request_permission")
        first.process.kill()
    second = open_editor({"session/request_permission": allow}, name="other")
    second.initialize()
    second.request("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    second.until(lambda message: "Written" in second.text)
    assert second.text == "BeforeI writeWritten"
    said = [update["content"]["text"] for update in second.of_kind("user_message_chunk")]
    assert said == ["[[acp-before]]", "[[acp-moves]]"]
    assert second.call("Write a.py")["status"] == "completed"
    assert (folder / "a.py").read_text() == "new\n"


def test_a_tools_question_has_a_button_for_each_answer(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    question = call("prompt_user", message="Which one?", actions=["red", "blue"])
    script = model.script("acp-question", Says("", [question]), DONE)
    editor = open_editor({"session/request_permission": lambda params: allow(params, "1")})
    editor.prompt(editor.new(folder), script)
    (_, asked), *_ = editor.asked
    assert [one["name"] for one in asked["options"]] == ["red", "blue", "None of these"]
    assert '"blue"' in model.requests["acp-question"][1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"action": "accept", "content": {"answer": "1"}}, '"blue"'),
        ({"action": "accept", "content": {"answer": "7"}}, "EXECUTION_FAILED"),
        ({"action": "decline"}, "EXECUTION_FAILED"),
        ({}, "EXECUTION_FAILED"),
    ],
)
def test_a_tools_question_is_a_form_in_an_editor_that_shows_forms(
    open_editor: Open, folder: Path, model: ScriptedModel, answer: dict[str, Any], result: str
) -> None:
    question = call("prompt_user", message="Which one?\u202e", actions=["red", "blue"])
    name = f"acp-form-{len(str(answer))}"
    editor = open_editor({"elicitation/create": lambda _: answer}, NEW)
    editor.prompt(editor.new(folder), model.script(name, Says("", [question]), DONE))
    ((method, asked),) = editor.asked
    assert (method, asked["message"]) == ("elicitation/create", "Which one?<U+202E>")
    assert asked["toolCallId"] == editor.of_kind("tool_call")[0]["toolCallId"]
    choices = asked["requestedSchema"]["properties"]["answer"]["oneOf"]
    assert choices == [{"const": "0", "title": "red"}, {"const": "1", "title": "blue"}]
    assert result in model.requests[name][1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"action": "accept", "content": {"colour": "blue", "count": 2, "more": 1}}, {"colour": "blue", "count": 2}),
        ({"action": "accept", "content": {"colour": "green"}}, "decline"),
    ],
)
def test_an_mcp_server_asks_the_user_in_a_form(
    open_editor: Open, folder: Path, model: ScriptedModel, answer: dict[str, Any], result: Any
) -> None:
    server = {"name": "small", "command": sys.executable, "args": [str(MCP_SERVER)], "env": []}
    answers = {"elicitation/create": lambda _: answer, "session/request_permission": allow}
    editor = open_editor(answers, NEW)
    name = f"acp-mcp-form-{len(str(answer))}"
    session = editor.new(folder, mcpServers=[server])
    until(lambda: editor.prompt(session, "/mcp") == "end_turn" and "small runs" in editor.text)
    editor.prompt(session, model.script(name, Says("", [call("small.ask")]), DONE))
    asked = dict(editor.asked)["elicitation/create"]
    assert asked["message"] == "The MCP server small asks: Which<U+202E>?"
    assert asked["requestedSchema"]["properties"]["count"] == {"type": "integer", "title": "count", "minimum": 1}
    assert [one["const"] for one in asked["requestedSchema"]["properties"]["colour"]["oneOf"]] == ["red", "blue"]
    told = model.requests[name][1]["messages"][-1]["content"]
    said = json.loads(next(line for line in told.splitlines() if line.startswith("{")))["content"]
    found = json.loads(said)["result"]
    assert (found.get("content") or found["action"]) == result


def test_newer_editors_get_notices_switches_and_plans_with_an_id(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    editor = open_editor(offers=NEW)
    broken = {"name": "broken", "command": "/nonexistent", "args": [], "env": []}
    editor.initialize()
    made = editor.request("session/new", cwd=str(folder), mcpServers=[broken])
    remember = made["configOptions"][-1]
    assert (remember["id"], remember["type"], remember["currentValue"]) == ("remember", "boolean", False)
    for value in (True, "session", "user"):
        changed = editor.request(
            "session/set_config_option", sessionId=made["sessionId"], configId="remember", type="boolean", value=value
        )
        assert changed["configOptions"][-1]["currentValue"] is (value in (True, "user"))
    plan = call("update_plan", items=[{"text": "Look", "status": "in_progress"}])
    editor.prompt(made["sessionId"], model.script("acp-new", Says("I plan", [plan]), DONE))
    (notice,) = editor.of_kind("notice")
    assert notice["severity"] == "warning"
    assert "broken" in notice["title"]
    assert editor.text == "I plan\n\nDone"
    (shown,) = [update["plan"] for update in editor.of_kind("plan_update")]
    assert (shown["type"], [entry["content"] for entry in shown["entries"]]) == ("items", ["Look"])
    assert editor.of_kind("plan") == []


@pytest.mark.parametrize("offers", [None, NEW])
def test_compact_lets_a_summary_replace_the_conversation(
    open_editor: Open, folder: Path, model: ScriptedModel, offers: Any
) -> None:
    editor = open_editor(offers=offers)
    session = editor.new(folder)
    editor.prompt(session, "/compact")
    assert editor.text.startswith("The conversation is too short")
    name = f"acp-compact-{bool(offers)}"
    for number in range(3):
        editor.prompt(session, model.script(f"{name}-{number}", Says("word " * 2_000, piece=10_000)))
    editor.messages.clear()
    assert editor.prompt(session, "/compact") == "end_turn"
    shown = editor.of_kind("compaction_update")
    if offers is None:
        assert shown == []
        assert "A summary replaces the conversation: " in editor.text
    else:
        assert [one["status"] for one in shown] == ["in_progress", "completed"]
        assert len({one["compactionId"] for one in shown}) == 1
        assert shown[1]["summary"][0]["text"].startswith("A summary replaces the conversation: ")
        assert editor.text == ""
    editor.prompt(session, model.script(f"{name}-next", DONE))
    assert SUMMARY["summary"] in str(model.requests[f"{name}-next"][0]["messages"])


def test_a_session_is_copied_and_gets_a_title(open_editor: Open, folder: Path, model: ScriptedModel) -> None:
    editor = open_editor()
    session = editor.new(folder)
    editor.prompt(session, model.script("acp-source", Says("In both")))
    copy = editor.request("session/fork", sessionId=session, cwd=str(folder), mcpServers=[])["sessionId"]
    assert copy != session
    editor.prompt(copy, model.script("acp-copy", Says("In the copy")))
    assert "In both" in str(model.requests["acp-copy"][0]["messages"])
    editor.prompt(session, model.script("acp-original", DONE))
    assert "In the copy" not in str(model.requests["acp-original"][0]["messages"])
    assert editor.request("session/set_title", sessionId=copy, title="  My \n title ") == {"title": "My title"}
    assert editor.of_session(copy)[-1] == {"sessionUpdate": "session_info_update", "title": "My title"}
    until(lambda: {"My title"} <= {one["title"] for one in editor.request("session/list")["sessions"]})
    editor.prompt(copy, model.script("acp-titled", DONE))
    assert editor.of_session(copy)[-1].get("title") in ("My title", None)
    for method, params, code in (
        ("session/fork", {"sessionId": "unknown", "cwd": str(folder)}, RESOURCE_NOT_FOUND),
        ("session/set_title", {"sessionId": "unknown", "title": "x"}, RESOURCE_NOT_FOUND),
        ("session/set_title", {"sessionId": copy, "title": " "}, INVALID_PARAMS),
        ("session/set_title", {"sessionId": copy}, INVALID_PARAMS),
    ):
        with pytest.raises(Refusal) as refused:
            editor.request(method, **params)
        assert refused.value.code == code, (method, params)


@pytest.mark.deep
def test_an_editor_that_does_not_read_holds_the_output_back_and_may_still_leave(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    script = model.script("acp-deaf", Says("", [call("run_command", command="yes | head -c 30000000")]), DONE)
    process = subprocess.Popen(CODELAB, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None

    def send(request_id: int, method: str, **params: Any) -> None:
        assert process.stdin is not None
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()

    send(1, "initialize", protocolVersion=1)
    process.stdout.readline()
    send(2, "session/new", cwd=str(folder), mcpServers=[])
    session = json.loads(process.stdout.readline())["result"]["sessionId"]
    send(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": script}])
    while b"session/request_permission" not in (line := process.stdout.readline()):
        pass
    chosen = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": chosen}).encode() + b"\n")
    process.stdin.flush()
    until(lambda: len(model.requests["acp-deaf"]) == 2)
    assert psutil.Process(process.pid).memory_info().rss < 400_000_000
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_call_that_another_window_approves_is_asked_about_once_more(
    open_editor: Open, folder: Path, model: ScriptedModel, cloud: LocalCloud
) -> None:
    asked: list[dict[str, Any]] = []

    def decide(params: dict[str, Any]) -> dict[str, Any] | None:
        asked.append(params)
        return None if len(asked) == 1 else allow(params)

    editor = open_editor({"session/request_permission": decide})
    session = editor.new(folder)
    script = model.script("acp-elsewhere", Says("", [WRITE]), DONE)
    prompt = editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": script}])
    editor.until(lambda message: message.get("method") == "session/request_permission")
    with Ide(cloud.url(session, extensions=1, viewer=1)) as window:
        window.send("hitl_decision", call_id=asked[0]["toolCall"]["toolCallId"], decision="approve")
        assert editor.answer_to(prompt) == {"stopReason": "end_turn"}
    first, second = asked
    assert first["toolCall"]["toolCallId"] == second["toolCall"]["toolCallId"]
    assert "approved elsewhere" in str(second["toolCall"]["content"])
    assert (folder / "a.py").read_text() == "new\n"


def test_a_subagent_is_a_call_and_its_calls_say_whose_they_are(
    open_editor: Open, folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("print(1)")
    work = model.script("acp-child", Says("I look\x1b[2J", [READ]), Says("", [WRITE]), Says("Written."))
    delegates = [call("delegate", agent="universal", task=f"{work} Write \u202ea.py")]
    editor = open_editor(answers={"session/request_permission": allow})
    session = editor.new(folder)
    assert editor.prompt(session, model.script("acp-delegate", Says("Asking", delegates), DONE)) == "end_turn"
    subagent = editor.call(f"universal: {work} Write <U+202E>a.py")
    assert (subagent["kind"], subagent["status"]) == ("think", "completed")
    assert subagent["content"] == [{"type": "content", "content": {"type": "text", "text": "I look␛[2J"}}]
    for title in ("universal › Read a.py", "universal › Write a.py"):
        shown = editor.call(title)
        assert (shown["status"], shown["_meta"]) == ("completed", {"parent_call_id": subagent["toolCallId"]})
    (_, asked), *_ = editor.asked
    assert asked["toolCall"]["title"] == "universal › Write a.py"
    assert editor.text == "AskingDone"
    assert (folder / "a.py").read_text() == "new\n"


def test_a_session_reads_additional_directories_and_its_editor_finds_their_files(
    open_editor: Open, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "notes.md").write_text("as it was saved\n")
    (docs / "AGENTS.md").write_text("Be brief.")
    write = call("write_file", path="+docs/new.md", content="x")
    script = model.script("acp-docs", Says("", [call("read_file", path="+docs/notes.md")]), Says("", [write]), DONE)
    read = {"fs/read_text_file": lambda params: {"content": f"unsaved in {Path(params['path']).name}\n"}}
    editor = open_editor(answers={**read, "session/request_permission": allow}, offers=FILES)
    assert "additionalDirectories" in editor.initialize()["agentCapabilities"]["sessionCapabilities"]
    session = editor.new(folder, additionalDirectories=[str(docs)])
    link = {"type": "resource_link", "name": "notes.md", "uri": (docs / "notes.md").as_uri()}
    assert editor.prompt(session, script, link) == "end_turn"
    first, second, third = (str(request["messages"]) for request in model.requests["acp-docs"])
    assert "@+docs/notes.md" in first
    assert "unsaved in AGENTS.md" in first
    assert f"+docs/ ({docs})" in first
    assert "unsaved in notes.md" in second
    assert "another folder, which calls can only read" in third
    assert editor.call("Read +docs/notes.md")["locations"] == [{"path": str(docs / "notes.md")}]
    assert sorted(path.name for path in docs.iterdir()) == ["AGENTS.md", "notes.md"]
    assert list(folder.iterdir()) == []


def test_additional_directories_are_those_of_each_request_alone(
    open_editor: Open, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "notes.md").write_text("the notes\n")
    read = Says("", [call("read_file", path="+docs/notes.md")])
    editor = open_editor()
    session = editor.new(folder, additionalDirectories=[str(docs)])
    editor.prompt(session, model.script("acp-docs-first", read, DONE))
    assert "the notes" in str(model.requests["acp-docs-first"][-1]["messages"])
    editor.request("session/close", sessionId=session)
    editor.request("session/resume", sessionId=session, cwd=str(folder), mcpServers=[])
    editor.prompt(session, model.script("acp-docs-later", read, DONE))
    assert "FILE_NOT_FOUND" in str(model.requests["acp-docs-later"][-1]["messages"][-1])


@pytest.mark.parametrize(
    "wrong", ["docs", [1], [""], ["relative"], ["/"], ["/nowhere"], [None], {"a": 1}, ["/tmp"] * 17, ["WORKSPACE/.."]]
)
def test_a_wrong_additional_directory_opens_no_session(open_editor: Open, folder: Path, wrong: Any) -> None:
    given = (
        [str(folder.parent) if name == "WORKSPACE/.." else name for name in wrong] if isinstance(wrong, list) else wrong
    )
    with pytest.raises(Refusal, match="additionalDirectories") as refusal:
        open_editor().new(folder, additionalDirectories=given)
    assert refusal.value.code == INVALID_PARAMS


def test_the_user_of_an_editor_signs_in_at_an_mcp_server(open_editor: Open, folder: Path) -> None:
    with served("mcp_sign_in_server.py", "PORT") as url:
        server = {"name": "guarded", "type": "http", "url": url, "headers": []}
        editor = open_editor()
        session = editor.new(folder, mcpServers=[server])
        wanted = rf"{url.removesuffix('/mcp')}/authorize\S+"

        def is_asked() -> bool:  # The server is trusted a moment after the session is there.
            return editor.prompt(session, "/mcp start guarded") == "end_turn" and bool(re.search(wanted, editor.text))

        until(is_asked)
        address = re.findall(wanted, editor.text)[-1]
        assert httpx.get(address, follow_redirects=True, trust_env=False).status_code == 200
        until(lambda: editor.prompt(session, "/mcp") == "end_turn" and "guarded runs: who" in editor.text)
    hints = {
        command["name"]: command["input"]["hint"]
        for command in editor.of_kind("available_commands_update")[-1]["availableCommands"]
        if command.get("input")
    }
    assert hints["agents"] == "NAME, or trust NAME CODE"
    assert hints["mcp"] == "NAME, trust NAME CODE, start NAME or tools NAME"
