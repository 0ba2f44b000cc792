"""What `codelab acp` does with messages and answers that it should not get, and the SDK's own client."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import codelab_client
import pytest
from codelab_client.acp import forms, prompts
from codelab_client.acp.files import EditorWorkspace
from codelab_client.acp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    Peer,
    RpcError,
)
from codelab_client.acp.params import Editor as Offers
from codelab_client.acp.permissions import Permissions
from codelab_client.acp.terminals import EditorTerminals
from codelab_client.acp.tool_calls import finished
from codelab_client.execution import ToolOutcome
from codelab_client.folders import Folders
from codelab_client.session.events import ToolCall
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import Change
from codelab_local import LocalCloud

from tests.client import acp_report
from tests.client.acp_schema import InvalidMessage, Witness
from tests.client.editors import CODELAB, Editor, schema
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import run

Answer = Callable[[str, dict[str, Any]], Any]


class Wire:
    """A peer whose messages are kept. `answer` answers its requests: it may raise RpcError, or give None to wait."""

    def __init__(self, answer: Answer = lambda *_: None, handle: Any = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._answer = answer
        self.peer = Peer(self._write, handle or self._refuse, lambda *_: None)

    async def _refuse(self, method: str, _: Any) -> Any:
        raise RpcError(METHOD_NOT_FOUND, method)

    def _write(self, line: bytes) -> None:
        message = json.loads(line)
        self.sent.append(message)
        if "method" in message and "id" in message:
            try:
                result = self._answer(message["method"], message["params"])
            except RpcError as error:
                self.receive({"id": message["id"], "error": {"code": error.code, "message": error.message}})
            else:
                if result is not None:
                    self.receive({"id": message["id"], "result": result})

    async def until(self, count: int) -> None:
        """Wait until so many messages were sent."""
        while len(self.sent) < count:
            await asyncio.sleep(0.01)

    def receive(self, message: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        asyncio.get_running_loop().call_soon(self.peer.receive, line)


@pytest.mark.parametrize(
    ("line", "code", "answered_id"),
    [
        (b"nonsense", PARSE_ERROR, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "x"}', PARSE_ERROR, None),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "x"}', PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b'"text"', INVALID_REQUEST, None),
        (b'{"id": 1, "method": "x"}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 1}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "x"}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "x"}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": []}', INVALID_PARAMS, 1),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "x"}', METHOD_NOT_FOUND, "a"),
    ],
)
async def test_a_malformed_message_has_the_error_that_json_rpc_names(line: bytes, code: int, answered_id: Any) -> None:
    wire = Wire()
    wire.peer.receive(line)
    await wire.until(1)
    assert [(one["id"], one["error"]["code"]) for one in wire.sent] == [(answered_id, code)]


async def test_what_needs_no_answer_gets_none() -> None:
    wire = Wire()
    for line in (
        b"",
        b"  ",
        b'{"jsonrpc": "2.0", "method": "unknown"}',
        b'{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": []}}',
        b'{"jsonrpc": "2.0", "id": 77, "result": {}}',
        b'{"jsonrpc": "2.0", "id": [], "result": {}}',
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "x"}}',
    ):
        wire.peer.receive(line)
    await asyncio.sleep(0.01)
    assert wire.sent == []


async def test_requests_are_cancelled_bounded_and_never_answered_twice() -> None:
    async def wait(*_: Any) -> None:
        await asyncio.sleep(30)

    wire = Wire(handle=wait)
    for number in range(120):
        wire.peer.receive(b'{"jsonrpc": "2.0", "id": %d, "method": "x"}' % number)
    wire.peer.receive(b'{"jsonrpc": "2.0", "id": 5, "method": "x"}')
    await wire.until(21)
    assert [one["id"] for one in wire.sent] == [*range(100, 120), None]
    # It has not begun yet: all of this came at once.
    wire.peer.receive(b'{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}}')
    await wire.until(22)
    assert (wire.sent[-1]["id"], wire.sent[-1]["error"]["code"]) == (7, REQUEST_CANCELLED)
    await wire.peer.aclose()
    assert len({one["id"] for one in wire.sent}) == 121


# -- the editor's answers --------------------------------------------------------------------------------------------

BOTH = Offers(reads=True, writes=True)


def workspace(root: Path, answer: Answer, offers: Offers = BOTH) -> EditorWorkspace:
    return EditorWorkspace(root, Wire(answer).peer, offers, "s", lambda *_: None)


def _error(*_: Any) -> Any:
    raise RpcError(-32603, "no")


@pytest.mark.parametrize("answer", [_error, lambda *_: {}, lambda *_: [], lambda *_: {"content": 3}, lambda *_: "x"])
def test_without_a_text_of_the_editor_the_disk_counts(folder: Path, answer: Answer) -> None:
    (folder / "a").write_text("disk")
    assert run(workspace(folder, answer).read(("a",), 100)).data == b"disk"


def test_the_editors_text_has_the_line_ends_of_the_disk(folder: Path) -> None:
    (folder / "a").write_bytes(b"one\r\ntwo\r\n")
    assert run(workspace(folder, lambda *_: {"content": "one\ntwo\n"}).read(("a",), 100)).data == b"one\r\ntwo\r\n"
    assert run(workspace(folder, lambda *_: {"content": "1\n2\n"}).read(("a",), 100)).data == b"1\r\n2\r\n"


def test_a_text_of_the_editor_is_not_larger_than_one_of_the_disk(folder: Path) -> None:
    (folder / "a").write_text("x")
    with pytest.raises(ToolFailure) as failed:
        run(workspace(folder, lambda *_: {"content": "é" * 51}).read(("a",), 100))
    assert failed.value.code == "FILE_TOO_LARGE"


def test_the_editor_is_asked_for_nothing_outside_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    asked: list[Any] = []

    def answer(method: str, params: dict[str, Any]) -> Any:
        asked.append((method, params["path"]))
        return {"content": "secret"}

    for names in (("link",), ("up", "secret"), ("missing",)):
        with pytest.raises(ToolFailure):
            run(workspace(folder, answer).read(names, 100))
        if names != ("missing",):
            with pytest.raises(ToolFailure):
                run(workspace(folder, answer).apply([Change(names, b"x")]))
    assert asked == []
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_link_that_is_swapped_while_the_editor_reads_gives_the_disks_text(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "a").write_text("harmless")

    def answer(*_: Any) -> Any:
        (folder / "a").unlink()
        (folder / "a").symlink_to(tmp_path / "secret")
        return {"content": (folder / "a").read_text()}

    with pytest.raises(ToolFailure) as failed:
        run(workspace(folder, answer).read(("a",), 100))
    assert failed.value.code == "PATH_OUTSIDE_WORKSPACE"


def test_if_the_editor_refuses_one_of_two_texts_neither_is_changed(folder: Path) -> None:
    (folder / "a").write_text("old a")
    (folder / "b").write_text("old b")

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "fs/read_text_file":
            return {"content": Path(params["path"]).read_text()}
        if params["path"].endswith("b"):
            raise RpcError(-32603, "read-only")
        Path(params["path"]).write_text(params["content"])
        return {}

    with pytest.raises(ToolFailure) as failed:
        run(workspace(folder, answer).apply([Change(("a",), b"new a"), Change(("b",), b"new b")]))
    assert "read-only" in failed.value.message
    assert ((folder / "a").read_text(), (folder / "b").read_text()) == ("old a", "old b")


def test_a_text_that_the_user_changes_meanwhile_is_not_overwritten(folder: Path) -> None:
    (folder / "a").write_text("disk")
    texts = iter(["as read", "as typed meanwhile"])
    files = workspace(folder, lambda *_: {"content": next(texts)})

    async def change() -> None:
        found = await files.read(("a",), 100)
        await files.apply([Change(("a",), b"new", expected=found.version)])

    with pytest.raises(ToolFailure) as failed:
        run(change())
    assert failed.value.code == "PATCH_APPLY_FAILED"
    assert (folder / "a").read_text() == "disk"


@pytest.mark.parametrize(
    "outcome",
    [
        {},
        [],
        {"outcome": "allow"},
        {"outcome": {}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": "allow_everything"}},
        {"outcome": {"outcome": "selected", "optionId": True}},
    ],
)
def test_what_is_no_clear_yes_is_a_no(folder: Path, outcome: Any) -> None:
    asked = ToolCall(call_id="c", tool_name="run_command", requires_approval=True, arguments={"command": "rm -rf ."})
    decision = run(Permissions(Wire(lambda *_: outcome).peer, "s", Folders(folder)).decide(asked, []))
    assert not decision.approves


def test_a_call_that_cannot_be_shown_is_not_asked_about(folder: Path) -> None:
    wire = Wire()
    asked = ToolCall(call_id="c", tool_name="run_command", requires_approval=True, arguments=None)
    assert not run(Permissions(wire.peer, "s", Folders(folder)).decide(asked, [])).approves
    assert wire.sent == []


@pytest.mark.parametrize(
    "answers",
    [
        {"terminal/create": {}},
        {"terminal/create": {"terminalId": 3}},
        {"terminal/create": {"terminalId": "t"}, "terminal/wait_for_exit": {}, "terminal/output": {"output": None}},
    ],
)
def test_a_terminal_that_answers_nonsense_fails_the_call(folder: Path, answers: dict[str, Any]) -> None:
    wire = Wire(lambda method, _: answers.get(method, {}))
    terminals = EditorTerminals(wire.peer, "s", lambda *_: None)

    async def show(*_: Any) -> None:
        pass

    with pytest.raises(ToolFailure) as failed:
        run(terminals.run("true", folder, show, None))
    assert failed.value.code == "EXECUTION_FAILED"


async def test_a_cancelled_command_gives_its_terminal_back(folder: Path) -> None:
    wire = Wire(lambda method, _: {"terminalId": "t", "output": ""} if method != "terminal/wait_for_exit" else None)

    async def show(*_: Any) -> None:
        pass

    running = asyncio.ensure_future(EditorTerminals(wire.peer, "s", lambda *_: None).run("x", folder, show, 0.01))
    while "terminal/wait_for_exit" not in [one["method"] for one in wire.sent]:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert wire.sent[-1]["method"] == "terminal/release"
    assert "$/cancel_request" in [one["method"] for one in wire.sent]


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([], "empty"),
        ([{"type": "text", "text": "  "}], "empty"),
        ([{"type": "text", "text": 3}], "text must be"),
        ([{"type": "text", "text": "x" * 101}], "100 at most"),
        ([{"type": "image", "data": "", "mimeType": "image/png"}], "data must be"),
        ([{"type": "image", "data": "AA==", "mimeType": "image/tiff"}], "not image/tiff"),
        ([{"type": "image", "data": "AA==", "mimeType": "image/png"}] * 3, "2 at most"),
        ([{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}], "audio"),
        ([{"type": "video"}], "unknown type"),
        ([{"type": "resource", "resource": {"uri": "file:///x", "blob": "AA=="}}], "takes texts and images"),
        ([{"type": "resource"}], "resource must be"),
        ([{"type": "resource_link"}], "uri must be"),
    ],
)
def test_a_prompt_that_cannot_be_sent_says_why(folder: Path, blocks: Any, said: str) -> None:
    with pytest.raises(RpcError) as refused:
        prompts.message(blocks, Folders(folder), prompts.Limits(100, 2, 50))
    assert refused.value.code == INVALID_PARAMS
    assert said in refused.value.message


def test_files_for_which_there_is_no_room_are_only_mentioned(folder: Path) -> None:
    def file(name: str, content: str) -> dict[str, Any]:
        return {"type": "resource", "resource": {"uri": f"file://{folder}/{name}", "text": content}}

    blocks = [file("large", "x" * 51), file("c", "ccc"), file("b", "bb"), file("a", "a"), {"type": "text", "text": "!"}]
    found = prompts.message(blocks, Folders(folder), prompts.Limits(100, 2, 50))
    assert found.text == "@large@c@b@a!"
    assert [(one["name"], one["content"]) for one in found.attachments] == [("a", "a"), ("b", "bb")]
    assert prompts.mention("https://example.com/a", Folders(folder)) == "https://example.com/a"
    assert prompts.mention("file:///etc/passwd", Folders(folder)) == "file:///etc/passwd"
    assert prompts.mention("file://[", Folders(folder)) == "file://["


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"properties": {}},
        {"properties": {"a": 1}},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": ["string", "null"]}}},
        {"properties": {"a": {"type": "string", "enum": []}}},
        {"properties": {"a": {"type": "string", "enum": [1]}}},
        {"properties": {"a": {"type": "string", "enum": 5}}},
        {"properties": {"a": {"type": "string", "oneOf": 5}}},
        {"properties": {"a": {"type": "array", "items": 5}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {str(number): {"type": "string"} for number in range(21)}},
    ],
)
def test_what_is_no_form_is_not_shown(folder: Path, schema: Any) -> None:
    wire = Wire()
    assert run(Permissions(wire.peer, "s", Folders(folder)).ask_for("x", "Say", schema)) is None
    assert wire.sent == []


def test_a_form_has_only_what_acp_knows_and_hides_nothing() -> None:
    field = {
        "type": "array",
        "title": "T\u200b",
        "x": 1,
        "minItems": 1,
        "maxItems": "2",
        "items": {"enum": ["r\u200b"]},
    }
    limits = {"type": "integer", "default": True, "minimum": float("inf"), "maximum": 9, "pattern": "(a+)+"}
    made = forms.form({"properties": {"a": field, "b\u200b": limits}, "required": ["a", "c"]})
    assert made is not None
    shown = {"type": "array", "title": "T<U+200B>", "minItems": 1}
    choices = {"anyOf": [{"const": "r\u200b", "title": "r<U+200B>"}]}
    assert made["properties"] == {
        "a": {**shown, "items": choices},
        "b\u200b": {"type": "integer", "title": "b<U+200B>", "maximum": 9},
    }
    assert made["required"] == ["a"]
    mode = {"mode": "form", "message": "m", "requestedSchema": made}
    schema().check("elicitation/create", {"sessionId": "s", **mode})
    assert forms.answer({"a": ["r\u200b"], "b\u200b": 1}, made) == {"a": ["r\u200b"], "b\u200b": 1}
    for wrong in (
        None,
        [],
        {},
        {"a": "r\u200b"},
        {"a": ["r"]},
        {"a": [1]},
        {"a": [], "b\u200b": True},
        {"a": [], "b\u200b": 1.5},
    ):
        assert forms.answer(wrong, made) is None, wrong


# -- the process ----------------------------------------------------------------------------------------------------


def test_the_first_answer_waits_for_no_library() -> None:
    program = "import sys, codelab_client.command_line, codelab_client.acp.serving; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "codelab_client.acp.agent" in loaded
    assert not {"websockets", "rich", "prompt_toolkit", "sqlite3", "acp", "codelab_client.tools.tree"} & set(loaded)


def test_files_in_place_of_pipes_and_a_closed_stderr_do(environment: dict[str, str], tmp_path: Path) -> None:
    asked, answered = tmp_path / "in", tmp_path / "out"
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}}
    asked.write_text(json.dumps(initialize))  # without an end of its line
    command = f"exec {shlex.join(CODELAB)} < {asked} > {answered} 2>&-"
    assert subprocess.run(["sh", "-c", command], env=environment, check=False).returncode == 0
    (line,) = answered.read_text().splitlines()
    assert json.loads(line)["result"]["protocolVersion"] == 1


def test_requests_before_initialize_and_unknown_sessions_are_refused(environment: dict[str, str], folder: Path) -> None:
    with Editor(environment) as editor:
        for method, code in (("session/new", INVALID_REQUEST), ("nonsense", INVALID_REQUEST)):
            editor.send({"id": 900, "method": method, "params": {}})
            assert editor.until(lambda message: message.get("id") == 900)["error"]["code"] == code
        editor.initialize()
        for method, params, code in (
            ("nonsense", {}, METHOD_NOT_FOUND),
            ("session/new", {}, INVALID_PARAMS),
            ("session/new", {"cwd": "relative", "mcpServers": []}, INVALID_PARAMS),
            ("session/new", {"cwd": "/nowhere", "mcpServers": []}, INVALID_PARAMS),
            ("session/new", {"cwd": "/", "mcpServers": []}, INVALID_PARAMS),
            ("session/new", {"cwd": "\ud800/", "mcpServers": []}, INVALID_PARAMS),
            ("session/new", {"cwd": str(folder), "mcpServers": {}}, INVALID_PARAMS),
            ("session/prompt", {"sessionId": "x", "prompt": []}, -32002),
            ("session/load", {"sessionId": "../x", "cwd": str(folder), "mcpServers": []}, -32002),
            ("session/load", {"sessionId": "unknown", "cwd": str(folder), "mcpServers": []}, -32002),
            ("authenticate", {"methodId": "nonsense"}, INVALID_PARAMS),
        ):
            editor.send({"id": 901, "method": method, "params": params})
            assert editor.until(lambda message: message.get("id") == 901)["error"]["code"] == code, (method, params)
        editor.send_raw(b"x" * 33_000_000)
        assert editor.until(lambda message: message.get("id", 0) is None)["error"]["code"] == INVALID_REQUEST
        assert editor.request("authenticate", methodId="token") == {}
        editor.process.send_signal(signal.SIGTERM)
        assert editor.process.wait(30) == 0


def test_without_a_server_the_editor_is_told_what_to_do(environment: dict[str, str], folder: Path) -> None:
    with Editor({**environment, "CODELAB_URL": "ws://localhost:9"}) as editor:
        editor.initialize()
        editor.send({"id": 900, "method": "session/new", "params": {"cwd": str(folder), "mcpServers": []}})
        error = editor.until(lambda message: message.get("id") == 900)["error"]
    assert "nothing listens there" in error["message"]
    assert "make run" in error["message"]


class SdkClient:
    """A client as the SDK's users write one; it allows everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        chosen = next(one for one in options if one.kind == "allow_once")
        import acp

        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, connection: Any) -> None:
        pass


async def test_the_sdks_own_client(cloud: LocalCloud, folder: Path, tmp_path: Path, model: ScriptedModel) -> None:
    import acp  # half a second, in every process of the tests

    environment = {**os.environ, "CODELAB_URL": cloud.http, "XDG_STATE_HOME": str(tmp_path), "CODELAB_TOKEN": ""}
    write = call("write_file", path="a.py", content="x")
    script = model.script("acp-sdk", Says("I write", [write]), Says("Done"))
    client: Any = SdkClient()
    recorder = str(Path(__file__).with_name("recording_agent.py"))
    command = (sys.executable, recorder, str(tmp_path / "log"))
    async with acp.spawn_agent_process(client, *command, env=environment) as (connection, _):
        found = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert found.agent_info.name == "codelab"
        session = await connection.new_session(cwd=str(folder), mcp_servers=[])
        prompt = [acp.text_block(script)]
        answer = await connection.prompt(session_id=session.session_id, prompt=prompt)
        assert answer.stop_reason == "end_turn"
        kinds = [update.session_update for update in client.updates]
        assert {"agent_message_chunk", "tool_call", "tool_call_update", "session_info_update"} <= set(kinds)
    assert (folder / "a.py").read_text() == "x"
    Witness(schema(), "SDK").hear_log(tmp_path / "log")


def test_the_table_of_methods_is_complete() -> None:
    page = acp_report.PAGE.read_text()
    wanted = {**schema().methods, **schema().updates}
    del wanted["session/update"]  # its kinds have rows
    table = acp_report.rows(page)
    assert sorted(name for names, _ in table for name in names) == sorted(wanted)
    marked = {name for names, cells in table if cells[1].startswith("*unstable*") for name in names}
    partly = {"plan_removed"}  # in a row with stable ones
    assert marked | partly == {name for name, is_stable in wanted.items() if not is_stable}


def test_a_client_has_a_tick_for_what_it_used() -> None:
    page = "x\n| ACP | `codelab acp` | own | acpx |\n|---|---|---|---|\n| `a`, `b` | yes | | ✓ |\n| `c` | no | | |\n\ny"
    ticked = acp_report.ticked(page, {"own": {"a", "b", "c"}, "acpx": {"b"}})
    assert ticked.splitlines()[3:5] == ["| `a`, `b` | yes | ✓ | (✓) |", "| `c` | no | ✓ | |"]
    assert acp_report.ticked(ticked, {}) == page.replace("✓", "").replace("|  |", "| |")


def test_a_wrong_message_of_an_agent_is_found() -> None:
    update = {"sessionUpdate": "plan", "entries": []}
    for offers, wrong in (
        ({}, {**update, "entrys": []}),
        ({}, {"sessionUpdate": "tool_call", "toolCallId": "c"}),
        ({}, {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}}),
        ({"plan": {}}, {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p"}}),
    ):
        witness = Witness(schema())
        witness.hear("editor", {"id": 1, "method": "initialize", "params": {"clientCapabilities": offers}})
        witness.hear("agent", {"method": "session/update", "params": {"sessionId": "s", "update": update}})
        with pytest.raises(InvalidMessage):
            witness.hear("agent", {"method": "session/update", "params": {"sessionId": "s", "update": wrong}})


def test_the_entry_for_the_registry_names_this_package_and_its_command() -> None:
    """The rules are those of the registry's agent.schema.json and CONTRIBUTING.md."""
    package = Path(codelab_client.__file__).parents[1]
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    entry = json.loads((package / "registry" / "codelab" / "agent.json").read_text())
    assert entry["version"] == project["version"] == codelab_client.__version__
    assert entry["distribution"] == {"uvx": {"package": f"{project['name']}=={project['version']}", "args": ["acp"]}}
    assert project["name"] in project["scripts"]
    assert entry.keys() >= {"id", "name", "version", "description", "distribution"}
    icon = (package / "registry" / "codelab" / "icon.svg").read_text()
    assert set(re.findall('(?:fill|stroke)="(.+?)"', icon)) == {"none", "currentColor"}


def test_an_image_of_a_result_is_shown_as_one_and_not_as_text() -> None:
    image = {"media_type": "image/png", "data": "iVBORw0KGgo="}
    wrong = [{"media_type": "text/html", "data": "PGI+"}, {"media_type": ["x"], "data": "a"}, "x", {"data": 7}]
    too_large = {"media_type": "image/png", "data": "A" * 2_000_001}
    fields = finished(ToolOutcome({"content": "drawn", "images": [image, *wrong, too_large]}), [])
    kinds = [block["content"]["type"] for block in fields["content"]]
    assert kinds == ["text", "image"]
    assert fields["content"][1]["content"] == {"type": "image", "mimeType": "image/png", "data": image["data"]}
    assert "iVBOR" not in str(fields["rawOutput"])
