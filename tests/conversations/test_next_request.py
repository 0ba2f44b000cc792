"""What a local server tells of the request that the next step would send."""

import httpx
from codelab_local import LocalCloud

from tests.conftest import Open
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel


def looked_at(cloud: LocalCloud, session: str, **query: str) -> httpx.Response:
    return httpx.get(f"{cloud.http}/api/v1/sessions/{session}/prompt", params=query, timeout=40)


def test_it_is_exactly_what_is_sent_then(cloud: LocalCloud, ide: Open, model: ScriptedModel) -> None:
    session = ide("looked-at", extensions=True)
    read = call("read_file", path="a.py")
    for number in range(2):  # the first message begins a session without a title
        script = model.script(f"looked-{number}", Says("", [read]), Says("Read"))
        told = looked_at(cloud, "looked-at", message=script, environment='{"git": "branch looked"}').json()
        assert model.requests[f"looked-{number}"] == [], "nothing was sent"
        assert "branch looked" in str(told["request"])
        asked = session.call_for(script, environment={"git": "branch looked"})
        session.result(asked, {"content": "x"})
        session.idle()
        assert told["request"] == model.requests[f"looked-{number}"][0]
        assert told["tokens"].keys() >= {"system", "tools", "files", "history", "form"}


def test_of_a_running_turn_it_is_the_next_step(cloud: LocalCloud, ide: Open, model: ScriptedModel) -> None:
    asked = ide("looked-running", extensions=True).call_for(
        model.script("looked-running", Says("", [call("read_file", path="a.py")]), Says("Read"))
    )
    told = looked_at(cloud, "looked-running", message="not this").json()
    assert asked["call_id"]
    text = str(told["request"]["messages"])
    assert "a.py" in text
    assert "not this" not in text


def test_an_environment_that_is_none_is_refused(cloud: LocalCloud, ide: Open) -> None:
    ide("looked-wrong", extensions=True)
    answer = looked_at(cloud, "looked-wrong", environment="[]")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID_ARGUMENTS")


def test_there_is_none_of_a_session_that_does_not_exist(cloud: LocalCloud) -> None:
    answer = looked_at(cloud, "looked-nowhere")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "SESSION_NOT_FOUND")


def test_nobody_else_sees_it(guarded_cloud: LocalCloud) -> None:
    assert looked_at(guarded_cloud, "looked-at").status_code == 401
