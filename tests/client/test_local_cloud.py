"""`codelab` when no server runs: it starts the local cloud of the checkout, and stops it again."""

import socket
from pathlib import Path

import psutil
import pytest
from codelab_client.local_cloud import checkout, is_missing, remarks
from codelab_client.session import Address
from codelab_local import LocalCloud
from codelab_local.host.processes import bound_socket

from benchmarks.rig import free_port
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.conftest import TEMPLATE
from tests.waiting import until


@pytest.mark.deep
def test_a_local_cloud_is_started_stopped_and_keeps_its_sessions(environment: dict[str, str], folder: Path) -> None:
    port = free_port()
    for arguments, last_word in (((), "quit"), (("--continue",), "kill")):
        asked = {**environment, "CODELAB_URL": f"ws://localhost:{port}", "DEMO_TOKEN_DELAY_MS": "0", "LLM_MODLE": "x"}
        with Terminal([*CODELAB, *arguments], asked, folder) as terminal:
            terminal.expect("Start the local cloud of")
            terminal.type("\r")
            until(lambda t=terminal: "/help lists" in t.shown(), 90)
            assert "LLM_MODLE is no setting; did you mean LLM_MODEL?" in terminal.shown()
            started = psutil.Process(terminal.process.pid).children(recursive=True)
            assert started
            if last_word == "quit":
                terminal.type("Hello!\r")
                terminal.expect("universal ·")
                terminal.type("/quit\r")
                assert terminal.ended() == 0
            else:
                terminal.expect("Hello!")
                terminal.process.kill()
            until(lambda these=started: not any(map(_runs, these)), 20)


def test_what_it_says_of_its_settings_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"LLM_MODLE is no setting\n\n\x1b[2Jodd\xff\n" + b"more\n" * 50)
    assert remarks(log)[:2] == ["LLM_MODLE is no setting", "␛[2Jodd\N{REPLACEMENT CHARACTER}"]
    assert len(remarks(log)) == 5


def port_of(bound: socket.socket) -> int:
    port: int = bound.getsockname()[1]
    return port


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_no_is_an_answer(environment: dict[str, str], folder: Path) -> None:
    with (
        bound_socket() as bound,  # nobody listens there as long as it is open
        Terminal(CODELAB, {**environment, "CODELAB_URL": f"ws://localhost:{port_of(bound)}"}, folder) as terminal,
    ):
        terminal.expect("[Y/n]")
        terminal.type("n\r")
        terminal.expect("No CodeLab server answers")
        assert terminal.ended() == 3


def test_only_an_address_of_this_machine_at_which_nothing_listens_is_missing(cloud: LocalCloud) -> None:
    assert checkout() == TEMPLATE.parent
    assert not is_missing(Address.parse(cloud.http))
    with bound_socket() as bound:
        assert is_missing(Address.parse(f"ws://localhost:{port_of(bound)}"))
    assert not is_missing(Address.parse("ws://192.0.2.1:8000"))
    assert not is_missing(Address.parse("wss://localhost:9"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert not is_missing(Address.parse(f"ws://127.0.0.1:{port_of(other)}"))
