"""Start and stop: the output, and that nothing is left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from codelab_local import LocalCloud
from codelab_local.host.errors import StartError
from codelab_local.settings.settings import Settings
from websockets.sync.client import connect

from tests.cases import cases
from tests.local.conftest import APP
from tests.processes import run
from tests.sampling import sampled
from tests.waiting import until

SMALL = APP / "small.yaml"
COMMAND = (sys.executable, "-m", "codelab_local")


def start(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a failing start to its end."""
    return run(*COMMAND, *arguments, env={**os.environ, "PORT": "0", **environment})


def refusal(*arguments: str, code: int = 1, **environment: str) -> str:
    """The one line that a failing start prints."""
    done = start(*arguments, **environment)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


def refused_settings(template: Path, **environment: str) -> str:
    """What a start says of its settings before it starts anything."""
    with pytest.raises(StartError) as refused:
        Settings.from_environment(template, {**os.environ, "PORT": "0", **environment})
    assert refused.value.exit_code == 2
    return str(refused.value)


def with_change(folder: Path, old: str, new: str) -> str:
    """A copy of the sample's template with one change; the sources stay where they are."""
    text = SMALL.read_text()
    assert old in text
    text = text.replace("functions/", f"{APP}/functions/").replace("layers/", f"{APP}/layers/").replace(old, new)
    (folder / "template.yaml").write_text(text)
    return str(folder / "template.yaml")


def descendants(cloud: LocalCloud) -> list[psutil.Process]:
    return psutil.Process(cloud.process.pid).children(recursive=True)


def until_gone(processes: list[psutil.Process]) -> None:
    """Wait for the processes' end. A zombie has ended."""
    until(lambda: not any(map(_runs, processes)))


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def ports(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    found = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker may end at any time
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN or not connection.raddr:
                    found.add((connection.laddr.ip, connection.laddr.port))
    return found


def asked(cloud: LocalCloud) -> httpx.Response:
    return httpx.get(f"{cloud.http}/health", timeout=30)


def test_it_prints_its_address_and_answers_health(cloud: LocalCloud) -> None:
    port = cloud.info["port"]
    assert cloud._output.read_text() == f"ready ws://127.0.0.1:{port}/ws/{{session_id}}\n"
    # On a busy machine DynamoDB may at first not answer in time.
    health = until(lambda: healthy if (healthy := asked(cloud)).json()["status"] == "healthy" else None)
    assert health.headers["Content-Type"] == "application/json"
    dependencies = {"dynamodb": "connected"}
    sample = {"status": "healthy", "service": "sample", "version": "1.2.3", "dependencies": dependencies}
    assert health.json() == sample


def test_it_listens_only_on_the_loopback_interface(cloud: LocalCloud) -> None:
    processes = [psutil.Process(cloud.process.pid), *descendants(cloud)]
    listening = ports(processes)
    assert {ip for ip, _ in listening} == {"127.0.0.1"}
    assert len(listening) == 3  # Public, internal, emulator.


def test_no_two_processes_share_a_connection(cloud: LocalCloud) -> None:
    cloud.invoke("command")
    connections = [
        connection.laddr
        for process in descendants(cloud)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_ESTABLISHED
    ]
    emulator = int(cloud.info["emulator"].rpartition(":")[2])
    clients = [address for address in connections if address.port != emulator]
    assert len(clients) == len(set(clients)) >= len(cloud.functions())


@pytest.mark.parametrize(
    ("sig", "times"), [(signal.SIGINT, 3), pytest.param(signal.SIGTERM, 1, marks=pytest.mark.deep)]
)
def test_a_signal_stops_everything(sig: int, times: int, tmp_path: Path) -> None:
    """A second and a third Ctrl-C have no effect."""
    cloud = LocalCloud(SMALL, environment={"TMPDIR": str(tmp_path)}).start()
    cloud.invoke("command")
    processes = descendants(cloud)
    assert len(processes) >= 7
    listening = ports([psutil.Process(cloud.process.pid), *processes])
    for _ in range(times):
        cloud.process.send_signal(sig)
        time.sleep(0.02)
    assert cloud.process.wait(30) == 0
    until_gone(processes)
    assert list(tmp_path.iterdir()) == []
    for ip, port in listening:
        with socket.socket() as probe:
            assert probe.connect_ex((ip, port)) != 0
    assert cloud.logs() == ""


@pytest.mark.deep
def test_clients_and_busy_functions_do_not_delay_the_stop() -> None:
    with LocalCloud(SMALL) as cloud:
        processes = descendants(cloud)
        with connect(cloud.url("s")) as client, socket.create_connection(("127.0.0.1", cloud.info["port"])):
            client.send('{"type": "command", "do": "sleep", "seconds": 2.5}')
            time.sleep(0.2)
            started = time.monotonic()
            assert cloud.stop() == 0
            assert time.monotonic() - started < 15
        until_gone(processes)


def test_ctrl_c_during_the_imports_ends_without_a_traceback() -> None:
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], "--template", "missing.yaml"]
    # So small a pipe that it waits for its reader, and cannot be over before the signal.
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pipesize=4096)
    assert process.stderr is not None
    # The first import of command_line.py.
    assert any(line.endswith("argparse\n") for line in iter(process.stderr.readline, ""))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in errors


@pytest.mark.deep
@pytest.mark.parametrize("children", [1, 3])
def test_ctrl_c_during_the_start_stops_everything(children: int, tmp_path: Path) -> None:
    command, environment = [*COMMAND, "--template", str(SMALL)], {**os.environ, "PORT": "0", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    local_cloud = psutil.Process(process.pid)
    until(lambda: len(local_cloud.children(recursive=True)) >= children, 60)
    processes = local_cloud.children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    until_gone(processes)
    assert (list(tmp_path.iterdir()), errors) == ([], "")


def test_its_processes_end_when_it_is_killed() -> None:
    cloud = LocalCloud(SMALL).start()
    processes = descendants(cloud)
    cloud.process.kill()
    cloud.process.wait()
    until_gone(processes)
    assert not Path(cloud.info["folder"]).exists()


@cases(
    ("environment", "named"),
    [
        ({"PORT": "http"}, "PORT"),
        ({"PORT": "70000"}, "PORT"),
        ({"PORT": "-1"}, "PORT"),
        ({"LOCAL_CONCURRENCY": "0"}, "LOCAL_CONCURRENCY"),
        ({"LOCAL_CONCURRENCY": "many"}, "LOCAL_CONCURRENCY"),
        ({"COLD": "perhaps"}, "COLD"),
        ({"HOST": "http://localhost"}, "HOST"),
        ({"GATEWAY_IDLE_S": "0"}, "GATEWAY_IDLE_S"),
    ],
)
def test_an_invalid_setting_is_named_with_a_solution(environment: dict[str, str], named: str) -> None:
    assert refused_settings(SMALL, **environment).startswith(f"{named} must be")


def test_an_empty_setting_counts_as_unset(tmp_path: Path) -> None:
    line = refusal("--template", str(tmp_path / "none.yaml"), code=2, PORT="", HOST="", LOCAL_CONCURRENCY="", COLD="")
    assert "none.yaml does not exist" in line


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal("--template", str(SMALL), PORT=str(port))
    assert f"port {port} on 127.0.0.1 is in use" in line
    assert "PORT=" in line


def test_an_invalid_model_address_is_reported_in_one_line() -> None:
    line = refusal("--template", str(APP / "template.yaml"), LLM_BASE_URL="nonsense")
    assert line == "LLM_BASE_URL=nonsense is not a valid address: write it like https://host/v1"


@pytest.mark.deep
def test_a_model_that_does_not_answer_is_only_a_warning() -> None:
    with LocalCloud(APP / "template.yaml", environment={"LLM_BASE_URL": "http://127.0.0.1:9/v1"}) as cloud:
        until(lambda: "no answer from the model at http://127.0.0.1:9/v1" in cloud.logs())


def test_a_foreign_host_is_reported_in_one_line() -> None:
    assert "HOST 192.0.2.1" in refusal("--template", str(SMALL), HOST="192.0.2.1", PORT="0")


@pytest.mark.parametrize(
    ("text", "named"),
    sampled(
        [
            ("Resources: [", "is not valid YAML"),
            ("just text", "has no Resources"),
            ("Resources: {}", "nothing to run"),
            ("Resources: {F: {Type: AWS::Serverless::Function, Properties: {CodeUri: none/}}}", "none does not exist"),
        ]
    ),
)
def test_an_invalid_template_is_reported_in_one_line(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "template.yaml").write_text(text)
    assert named in refusal("--template", str(tmp_path / "template.yaml"))


def test_a_failed_deployment_is_reported_in_one_line(tmp_path: Path) -> None:
    template = with_change(tmp_path, "AWS::DynamoDB::Table", "AWS::DynamoDB::Nothing")
    assert "AWS::DynamoDB::Nothing" in refusal("--template", template)


@pytest.mark.deep
def test_a_missing_parameter_is_named(tmp_path: Path) -> None:
    template = with_change(tmp_path, "StageName: {Type: String, Default: dev}", "StageName: {Type: String}")
    assert "--parameter StageName=VALUE" in refusal("--template", template, code=2)
    with LocalCloud(template, parameters={"StageName": "other"}) as cloud:
        assert cloud.info["stage"] == "other"


@pytest.mark.deep
@pytest.mark.parametrize("cold", ["0", "1"])
def test_a_failing_init_is_reported_with_its_function(cold: str) -> None:
    line = refusal("--template", str(SMALL), STEPS="many", COLD=cold)
    assert line == "function command cannot start: STEPS must be an integer, not 'many'"


def test_wrong_arguments_exit_with_2() -> None:
    assert start("--nonsense").returncode == 2
    assert "--env must be NAME=VALUE" in refusal("--template", str(SMALL), "--env", "broken", code=2)


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    refusal("--template", str(SMALL), STEPS="many", TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []
