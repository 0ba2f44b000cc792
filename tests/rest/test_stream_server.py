"""The process that streams in the local cloud: started when it is asked for, again when it has died, and stopped."""

import contextlib

import httpx
import psutil
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.scripted_model import ScriptedModel
from tests.waiting import until


def servers(cloud: LocalCloud) -> list[psutil.Process]:
    """The processes that serve streams."""
    found = []
    for process in psutil.Process(cloud.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "handler:app" in process.cmdline():
                found.append(process)
    return found


def test_the_process_that_streams_comes_when_it_is_needed_and_ends_with_all_others(model: ScriptedModel) -> None:
    with LocalCloud(TEMPLATE, environment=model.environment) as cloud:
        with httpx.Client(base_url=f"{cloud.http}/api/v1", timeout=40) as api:
            session = api.post("/sessions", json={}).json()["session_id"]
            path, once = f"/chat/stream/{session}", {"last_seq": 0, "wait": 0}
            assert servers(cloud) == [], "nobody has asked yet"
            assert api.get(path, params=once).status_code == 200
            assert api.get(path, params=once).status_code == 200
            (first,) = servers(cloud)
            first.kill()
            until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)
            assert api.get(path, params=once).status_code == 200
            (second,) = servers(cloud)
            with api.stream("GET", path, params={"last_seq": 0}) as answer:
                assert next(answer.iter_lines()).startswith("retry:")
                assert cloud.stop() == 0, "an open stream does not keep it"
        assert not second.is_running()
