"""The local cloud's stream process: started on demand, restarted after a crash, and stopped."""

import contextlib
import http.client
import socket
import time

import psutil
import pytest
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.fakes.model.server import ScriptedModel
from tests.processes import command_lines
from tests.rest.conftest import client_of
from tests.waiting import until


def servers(cloud: LocalCloud) -> list[psutil.Process]:
    """The stream processes."""
    return [process for process, line in command_lines(cloud).items() if "handler:app" in line]


@pytest.mark.deep
def test_the_stream_process_starts_on_demand_and_ends_with_the_others(model: ScriptedModel) -> None:
    with LocalCloud(TEMPLATE, environment=model.environment) as cloud:
        with client_of(cloud) as api:
            session = api.post("/sessions", json={}).json()["session_id"]
            path, once = f"/chat/stream/{session}", {"last_seq": 0, "wait": 0}
            assert servers(cloud) == [], "nobody has asked yet"
            assert [api.get(path, params=once).status_code for _ in range(2)] == [200, 200]
            (first,) = servers(cloud)
            first.kill()
            until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)
            assert api.get(path, params=once).status_code == 200
            (second,) = servers(cloud)
            with api.stream("GET", path, params={"last_seq": 0}) as answer:
                assert next(answer.iter_lines()).startswith("retry:")
                assert cloud.stop() == 0, "an open stream does not keep it"
        assert not second.is_running()


@pytest.mark.deep
def test_the_adapters_idle_connection_stays_open(cloud: LocalCloud) -> None:
    """By default uvicorn closes it after 5 s, and the adapter would lose the next request."""
    with client_of(cloud) as api:
        api.get(f"/chat/stream/{api.post('/sessions', json={}).json()['session_id']}", params={"wait": 0})
    adapter = http.client.HTTPConnection("rest_stream")
    adapter.sock = socket.socket(socket.AF_UNIX)
    adapter.sock.settimeout(40)
    adapter.sock.connect(f"{cloud.info['folder']}/rest_stream.socket")
    with contextlib.closing(adapter):
        for _ in range(2):
            adapter.request("GET", "/nothing")
            answer = adapter.getresponse()
            assert (answer.status, answer.read() != b"") == (404, True)
            kept = adapter.sock
            time.sleep(7)
        assert adapter.sock is kept is not None
        kept.settimeout(0.1)
        with pytest.raises(TimeoutError):
            kept.recv(1)
