"""The tutorials, typed as shown: a client in fifty lines, and a new agent."""

import ast
import contextlib
import json
import re
import select
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
import uvicorn
from codelab_local import LocalCloud
from codelab_local.demo_model import completions
from codelab_local.demo_model import server as demo_server

from infra.docs.schemas import frames_of
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.fakes.model.told_results import told_results
from tests.frames import DOCUMENT
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "your-own-client.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


(CLIENT,), (COMMAND,), (TALK,) = blocks(PAGE, "python"), blocks(PAGE, "bash"), blocks(PAGE, "text")


class Relay:
    """A proxy port for the server of `url`. `cut` breaks all connections through it."""

    def __init__(self, url: str) -> None:
        server = urlsplit(url)
        self._server = (server.hostname, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.connections = 0
        self.url = url.replace(server.netloc, f"127.0.0.1:{self._listener.getsockname()[1]}")
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for end in self._open:
            with contextlib.suppress(OSError):  # It has already ended.
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._open += [client, server]
                self.connections += 1
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    @staticmethod
    def _pass_on(client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with client, server, contextlib.suppress(OSError):
            while True:
                for readable in select.select([client, server], [], [])[0]:
                    data = readable.recv(65536)
                    if not data:
                        return
                    other[readable].sendall(data)


class Typist:
    """The page's client, running in a folder. `shown` is its output so far."""

    def __init__(self, program: Path, folder: Path, url: str) -> None:
        command = COMMAND.replace("ws://localhost:8000/ws/my_session", url)
        command = command.replace("~/codelab/.venv/bin/python", f"{sys.executable} -W error")
        arguments = shlex.split(command.replace("~/codelab/client.py", str(program)))
        self.shown = ""
        self.process = subprocess.Popen(
            arguments, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while data := self.process.stdout.read1():
            self.shown += data.decode()

    def sees(self, text: str) -> None:
        """Wait until its output is `text`."""
        try:
            until(lambda: self.shown == text)
        except AssertionError:
            assert self.shown == text  # Shown instead.

    def types(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()


Start = Callable[[str], Typist]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def start(tmp_path: Path, workspace: Path) -> Iterator[Start]:
    """Starts the client in the workspace."""
    program = tmp_path / "client.py"
    program.write_text(CLIENT, encoding="utf-8")
    with ExitStack() as started:
        yield lambda url: started.enter_context(Typist(program, workspace, url))


@pytest.fixture
def relay(cloud: LocalCloud, request: pytest.FixtureRequest) -> Iterator[Relay]:
    relay = Relay(cloud.url(request.node.name))
    yield relay
    relay.close()


def test_the_client_has_fifty_lines_and_needs_one_package() -> None:
    assert len(CLIENT.splitlines()) <= 50
    assert max(map(len, CLIENT.splitlines())) <= 120
    nodes = list(ast.walk(ast.parse(CLIENT)))
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert imported - sys.stdlib_module_names == {"websockets.sync.client"}
    assert not any(isinstance(node, ast.ImportFrom) for node in nodes)


def test_the_pseudocode_has_six_lines() -> None:
    pseudocode = PAGE.partition("six lines:\n\n```\n")[2].partition("```\n")[0]
    assert len(pseudocode.splitlines()) == 6


def test_the_tables_have_the_fields_that_the_client_uses_as_the_schemas_have_them() -> None:
    section = PAGE.partition("## The frames and fields it uses")[2].partition("\n## ")[0]
    fields_of_frames, listed = set(), {"type"}
    for table, definition in zip(section.split("| the server sends |"), ("ClientFrame", "ServerFrame"), strict=True):
        schemas = frames_of(DOCUMENT, definition)
        fields_of_frames |= {name for schema in schemas.values() for name in schema["properties"]}
        schemas["any frame"] = {"properties": DOCUMENT["$defs"]["AgentStatusFrame"]["properties"], "required": []}
        schemas["API Gateway"] = DOCUMENT["$defs"]["GatewayErrorFrame"]
        rows = re.findall(r"^\| `?(any frame|API Gateway|\w+(?=` ))[^|]* \| (.*) \|$", table, re.MULTILINE)
        assert len(rows) == table.count("\n| `") + 2 * (definition == "ServerFrame")
        for frame, cell in rows:
            fields = re.findall(r"(?:^|; |one of |, or |come with |but )`(\w+)(\??)`", cell)
            for name, mark in fields:
                assert name in schemas[frame]["properties"], (frame, name)
                assert (mark == "") == (name in schemas[frame]["required"]), (frame, name)
            if inner := re.findall(r"`(\w+)`(?=[^{]*})", cell):
                assert set(inner) <= set(DOCUMENT["$defs"]["PendingCall"]["required"])
            listed |= {name for name, _ in fields}
    constants = {node.value for node in ast.walk(ast.parse(CLIENT)) if isinstance(node, ast.Constant)}
    assert constants & fields_of_frames <= listed


@pytest.mark.deep
def test_the_pages_conversation_is_reproduced(demo_cloud: LocalCloud, start: Start, workspace: Path) -> None:
    typed = re.compile(r"^(> |approve\? \[y/N\] )(.+)\n", re.MULTILINE)
    client, expected = start(demo_cloud.url("tutorial")), ""
    for said in re.split(r"(?<=\n)(?=> |approve\?)", TALK):
        match = typed.match(said)
        assert match is not None
        expected += match[1]
        client.sees(expected)
        client.types(match[2])
        expected += said[match.end() :]
    client.sees(expected + "> ")
    assert [file.name for file in workspace.iterdir()] == ["test.py"]
    assert (workspace / "test.py").read_text() == "print('hello')\n"


@pytest.mark.deep
def test_the_client_reads_and_writes_files_and_refuses_the_rest(
    cloud: LocalCloud, model: ScriptedModel, start: Start, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "big.txt").write_bytes("строка\r\n".encode() * 2_000)
    (workspace / "huge.txt").write_bytes(bytes(100_000))
    (workspace / "link.txt").symlink_to(tmp_path / "client.py")
    reads = [call("read_file", path=path) for path in ("big.txt", "huge.txt", "link.txt", "none.txt")]
    marker = model.script(
        "tutorial-files",
        Says("Reading.", [*reads, call("list_files", path=".")]),
        Says("Writing.", [call("write_file", path="new/каталог/a.txt", content="один\r\nдва")]),
        Says("Done."),
    )
    client = start(cloud.url("tutorial-files"))
    client.sees("> ")
    client.types(marker)
    write = 'write_file {"path": "new/каталог/a.txt", "content": "один\\r\\nдва"}'
    asked = f"> Reading.\nWriting.\n{write}\napprove? [y/N] "
    client.sees(asked)
    client.types("y")
    client.sees(asked + "Done.\n> ")
    assert (workspace / "new/каталог/a.txt").read_bytes() == "один\r\nдва".encode()
    big, huge, link, none, listed = told_results(model.requests["tutorial-files"][1]["messages"])
    assert "строка" in big
    assert "too large" in huge
    assert "does not do read_file link.txt" in link
    assert "No such file" in none
    assert "does not do list_files" in listed


@pytest.mark.deep
def test_the_client_shows_every_piece_once_despite_broken_connections(
    relay: Relay, model: ScriptedModel, start: Start
) -> None:
    text = "".join(f"{n} слово " for n in range(250))
    client = start(relay.url)
    client.sees("> ")
    for turn in range(2):
        seen = client.shown
        client.types(model.script(f"tutorial-cut-{turn}", Says(text, delay=0.006)))
        until(lambda seen=seen: len(client.shown) > len(seen) + 100)
        relay.cut()
        client.sees(f"{seen}{text}\n> ")
    assert relay.connections >= 3


@pytest.mark.deep  # conversations/test_reference_client.py breaks connections
def test_messages_and_decisions_survive_a_broken_connection(
    relay: Relay, model: ScriptedModel, start: Start, workspace: Path
) -> None:
    write = call("write_file", path="a.txt", content="a")
    marker = model.script("tutorial-lost", Says("", [write]), Says("It is written."))
    client = start(relay.url)
    client.sees("> ")
    relay.cut()
    client.types(marker)
    asked = '> write_file {"path": "a.txt", "content": "a"}\napprove? [y/N] '
    client.sees(asked)
    relay.cut()
    client.types("y")
    client.sees(asked + "It is written.\n> ")
    assert (workspace / "a.txt").read_text() == "a"
    assert relay.connections >= 3


AGENT_PAGE = (DOCS / "your-own-agent.md").read_text(encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that the local cloud runs."""
    for name in ("functions", "layers"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("template.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


class Asked:
    """A demonstration model in this process, and the requests to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bodies: list[dict[str, Any]] = []
        monkeypatch.setattr(demo_server, "parsed", self._parsed)
        self._bound, model = demo_server.bind("127.0.0.1", 0), demo_server.DemoModel(demo_server.Delays())
        config = uvicorn.Config(model, interface="asgi3", lifespan="off", ws="none", log_level="critical")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._bound],))
        self.url = f"http://127.0.0.1:{self._bound.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()

    def _parsed(self, body: bytes) -> completions.Request:
        self.bodies.append(json.loads(body))
        return completions.parsed(body)


def is_like(shown: Any, received: Any) -> bool:
    """Does the received value contain everything that the page shows?"""
    if isinstance(shown, dict) and isinstance(received, dict):
        return all(name in received and is_like(value, received[name]) for name, value in shown.items())
    return bool(shown == received)


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_agent_tutorial_works_as_shown(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = deque(re.findall(r"^```(\w+)\n(.*?)^```", AGENT_PAGE, re.DOTALL | re.MULTILINE))

    def block(expected: str) -> str:
        """The page's next block, which must be in this language."""
        language, text = page.popleft()
        assert language == expected, text
        return str(text)

    (file,) = re.findall(r"Save this as `(.+\.toml)`", AGENT_PAGE)
    with Asked(monkeypatch) as demo, ExitStack() as stack:
        model = {"LLM_BASE_URL": demo.url, "LLM_API_KEY": "any", "LLM_MODEL": "gpt-4.1-mini"}
        cloud = stack.enter_context(LocalCloud(checkout / "template.yaml", environment=model))

        def is_offered() -> None:
            """Save the file and repeat the command until the output matches the page."""
            (checkout / file).write_text(block("toml"), encoding="utf-8")
            command = block("bash").replace("http://localhost:8000", cloud.http)
            shown = block("text")

            def is_shown() -> bool:
                time.sleep(0.2)  # each try asks a function, while others begin anew with the file
                return subprocess.run(command, shell=True, capture_output=True, text=True).stdout == shown

            until(is_shown)

        is_offered()
        assert "ws://localhost:8000/ws/review" in block("bash")
        connection = stack.enter_context(Ide(cloud.url("review", extensions=1)))
        connection.send_raw(block("json"))
        connection.idle()
        for line in block("json").splitlines():
            assert any(is_like(json.loads(line), frame) for frame in connection.frames), line
        assert demo.bodies[-1]["model"] == "gpt-4.1-mini"

        is_offered()
        connection.send_raw(block("json"))
        connection.frames.clear()
        assert connection.idle() == block("text").strip()
        assert not connection.of_type("tool_call")
        assert (demo.bodies[-1]["model"], demo.bodies[-1]["temperature"]) == ("gpt-4.1", 0.2)
        assert "CodeLab's reviewer" in demo.bodies[-1]["messages"][0]["content"]

        connection.send_raw(block("json"))
        assert is_like(json.loads(block("json")), connection.expect("tool_call"))
    assert not page
