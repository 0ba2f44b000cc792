"""The cloud view: what it shows and disturbs, and that nobody else can look."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from codelab_local import LocalCloud
from codelab_local.cloud_view.traces import Traces
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from tests.cases import cases
from tests.fakes.http import Exchange, HttpServer
from tests.local.conftest import APP
from tests.security.chromium import Chromium
from tests.waiting import until


def page(exchange: Exchange) -> None:
    """A page that says which cookies its server got."""
    text = f"<!doctype html><body>cookies: {exchange.headers.get('cookie', '')}"
    exchange.answer(200, text.encode(), {"Content-Type": "text/html"})


@pytest.fixture(scope="module")
def inspected() -> Iterator[LocalCloud]:
    with LocalCloud(APP / "template.yaml", environment={"INSPECT": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    with HttpServer(page) as running:
        yield running.port


ROOT = Path(__file__).parents[2]
#: Presses the button of a fault until it is done: the first press may have been forgotten on a busy machine.
CONFIRM = """const confirm = (label) => {
  const button = document.querySelector(`[aria-label^="${label}"]`);
  if (!button.classList.contains('sure')) button.click();
  button.click();
};"""


class View:
    """The view as a program that knows its secret sees it, by default; `headers` override those of its own page."""

    def __init__(self, cloud: LocalCloud) -> None:
        parts = urlsplit(cloud.info["view"])
        self.host, self.secret = parts.netloc, parts.fragment
        self.address = f"http://127.0.0.1:{parts.port}"
        self.cookie = ""

    def send(self, method: str, path: str, body: Any = None, **headers: str | None) -> httpx.Response:
        own = {"host": self.host, "origin": f"http://{self.host}", "cookie": self.cookie}
        given = {name.replace("_", "-"): value for name, value in {**own, **headers}.items() if value}
        return httpx.request(method, f"{self.address}{path}", content=json.dumps(body), headers=given, timeout=60)

    def enter(self) -> "View":
        answer = self.send("POST", "/session", {"secret": self.secret})
        assert answer.status_code == 204
        self.cookie, _, attributes = answer.headers["set-cookie"].partition(";")
        assert attributes.strip() == "Path=/; HttpOnly; SameSite=Strict"
        return self

    def state(self, match: str = "") -> Any:
        return self.send("GET", f"/state?match={match}").json()


@pytest.fixture(scope="module")
def view(inspected: LocalCloud) -> View:
    return View(inspected).enter()


def test_it_shows_invocations_items_lines_and_connections(inspected: LocalCloud, view: View) -> None:
    with connect(inspected.url("looked-at"), proxy=None, open_timeout=60) as socket:
        for _ in range(2):
            socket.send(json.dumps({"type": "command", "do": "sleep", "seconds": 0.05, "name": "one"}))
            socket.recv(60)
            # The socket has the answer before the invocation is over, and until then the worker takes no other.
            until(lambda: all(one["state"] != "running" for one in view.state()["invocations"]))
        _invoke(inspected, {"do": "raise", "about": "looked-at"})
        until(lambda: all(one["state"] != "running" for one in view.state()["invocations"]))
        found = view.state()
        [session] = [one for one in found["connections"] if one["about"] == {"session_id": "looked-at"}]
        sleeps = [one for one in found["invocations"] if one["text"] == f"command {session['id']}"]
        assert [one["state"] for one in sleeps] == ["done", "done"]
        assert sleeps[0]["cold"] is False
        assert all(one["duration_ms"] >= 50 for one in sleeps)
        assert any(one["cold"] for one in found["invocations"])
        [failed] = [one for one in view.state("looked-at")["invocations"] if one["state"] == "failed"]
        assert failed["error"] == "RuntimeError: broken on purpose"
        until(lambda: any(one["function"] == "command" for one in view.state("broken on purpose")["lines"]))
    until(lambda: all(one["about"] != {"session_id": "looked-at"} for one in view.state()["connections"]))
    address = f"/items?match={quote(session['id'])}"

    def items() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = view.send("GET", address).json()["items"]
        return found

    # The authorizer's comes first, and that of the end some time later.
    until(lambda: {"connect", "disconnect"} <= {one["item"]["pk"] for one in items()})
    assert {session["id"]} == {one["sort"] for one in items()}


def test_faults_happen_once_or_until_they_are_cleared(inspected: LocalCloud, view: View) -> None:
    assert view.send("POST", "/kill", {"function": "command", "after_ms": 20}).status_code == 204
    killed = _invoke(inspected, {"do": "sleep", "seconds": 30})
    assert killed["errorType"] == "Runtime.ExitError"
    assert _invoke(inspected, {"do": "word"}) != killed, "only the next one is killed"
    assert view.send("POST", "/delay", {"function": "command", "ms": 300}).status_code == 204
    began = time.monotonic()
    _invoke(inspected, {"do": "word"})
    assert time.monotonic() - began >= 0.3
    assert next(one for one in view.state()["functions"] if one["name"] == "command")["delay_ms"] == 300
    assert view.send("POST", "/delay", {"function": "command", "ms": 0}).status_code == 204
    newest = view.state()["invocations"]
    assert next(one for one in newest if one["function"] == "command")["waited_ms"] >= 300
    with connect(inspected.url("dropped"), proxy=None, open_timeout=60) as socket:
        [mine] = until(
            lambda: [one for one in view.state()["connections"] if one["about"] == {"session_id": "dropped"}]
        )
        assert view.send("POST", "/drop", {"connection": mine["id"]}).status_code == 204
        with pytest.raises(ConnectionClosedError):
            socket.recv(60)
    assert view.send("POST", "/drop", {"connection": mine["id"]}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/delay", {"function": "command"}),
        ("/delay", {"function": "command", "ms": -1}),
        ("/delay", {"function": "command", "ms": True}),
        ("/delay", {"function": "command", "ms": 1e12}),
        ("/kill", {"function": "command", "after_ms": "soon"}),
        ("/kill", {"function": "no-such"}),
        ("/kill", {"function": ["command"]}),
        ("/kill", []),
        ("/drop", {"connection": 7}),
    ],
)
def test_a_wrong_fault_is_explained(view: View, path: str, body: Any) -> None:
    answer = view.send("POST", path, body)
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_only_its_own_page_and_whoever_knows_the_secret_get_in(view: View, inspected: LocalCloud) -> None:
    stranger = View(inspected)
    fault = {"function": "command", "ms": 1}
    for method, path, body in (("GET", "/state", None), ("GET", "/items", None), ("POST", "/delay", fault)):
        assert stranger.send(method, path, body).status_code == 401
        assert stranger.send(method, path, body, cookie="view=").status_code == 401
        assert stranger.send(method, path, body, cookie=f"view={view.secret}").status_code == 401
        # Nor does the cookie help a page of another origin, or under another name.
        for origin in ("null", "https://evil.test", view.address, f"https://{view.host}", "http://localhost:3000"):
            assert view.send(method, path, body, origin=origin).status_code == 403
        for host in ("evil.test", view.host.rpartition(":")[0], "localhost", urlsplit(view.address).netloc):
            assert view.send(method, path, body, host=host).status_code == 403
        for site in ("cross-site", "same-site"):
            assert view.send(method, path, body, sec_fetch_site=site).status_code == 403
        assert "access-control-allow-origin" not in view.send(method, path, body, origin="https://evil.test").headers
    assert view.send("POST", "/delay", fault, origin=None).status_code == 403
    assert view.send("OPTIONS", "/delay", origin="https://evil.test").status_code == 403
    for wrong in ({"secret": ""}, {"secret": view.secret[:-1]}, {"secret": None}, {"secret": "\ud800"}, [], None):
        assert stranger.send("POST", "/session", wrong).status_code == 403
    page = stranger.send("GET", "/", origin=None)
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert not [text for text in (view.secret, view.host.partition(".")[0]) if text in inspected.logs()]


SPAN = {
    "traceId": "6" * 32,
    "spanId": "1" * 16,
    "name": "invoke_agent <img src=x onerror=window.owned=1>",
    "kind": 1,
    "startTimeUnixNano": "1700000000000000000",
    "endTimeUnixNano": "1700000000250000000",
    "attributes": [{"key": "gen_ai.conversation.id", "value": {"stringValue": "traced-session"}}],
    "status": {"code": 2},
}
CHILD = SPAN | {"spanId": "2" * 16, "parentSpanId": "1" * 16, "name": "step 1", "status": {}}


def export(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def collector_of(cloud: LocalCloud) -> str:
    """The address that functions are given as their collector's."""
    return str(_invoke(cloud, {"do": "environment"})["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])


def test_it_is_the_collector_of_the_functions_and_shows_traces_as_trees(inspected: LocalCloud, view: View) -> None:
    assert httpx.post(collector_of(inspected), json=export(CHILD, SPAN)).status_code == 200
    found = view.state("traced-session")["spans"]
    assert [(one["name"], one["depth"], one["duration_ms"], one["error"]) for one in found] == [
        (SPAN["name"], 0, 250, "error"),
        ("step 1", 1, 250, ""),
    ]
    assert view.state("another session")["spans"] == []


@pytest.mark.deep
def test_the_real_functions_send_it_the_trace_of_a_turn() -> None:
    with LocalCloud(ROOT / "template.yaml", environment={"INSPECT": "1"}) as running:
        real = View(running).enter()
        with connect(running.url("s1"), proxy=None, open_timeout=60) as socket:
            socket.send(json.dumps({"type": "user_message", "content": "Hello!"}))
            spans = until(lambda: len(found := real.state("")["spans"]) >= 4 and found)
    assert [one["depth"] for one in spans] == [0, 1, 1, 2]
    assert [one["name"].partition(" ")[0] for one in spans] == ["invoke_agent", "user_message", "step", "chat"]


def test_only_who_knows_its_path_is_a_function(inspected: LocalCloud, view: View) -> None:
    address = collector_of(inspected)
    before = view.state()["spans"]
    for path in ("/v1/traces", "/x/v1/traces", f"/{view.secret}/v1/traces", "/\u00e9/v1/traces"):
        assert httpx.post(f"{view.address}{path}", json=export(SPAN | {"spanId": "9" * 16})).status_code in (
            401,
            403,
            404,
        )
    assert httpx.get(address).status_code == 403
    assert view.state()["spans"] == before


@cases(
    "document",
    [
        None,
        [],
        {"resourceSpans": 7},
        export("span", 7, None, []),
        export(SPAN | {"traceId": "no"}),
        export(SPAN | {"spanId": ["1"]}),
        export(SPAN | {"name": {"a": 1}}),
        export(SPAN | {"startTimeUnixNano": "-1"}),
        export(SPAN | {"startTimeUnixNano": "9" * 5_000}),
        export(SPAN | {"endTimeUnixNano": "1"}),
    ],
)
def test_what_is_no_span_is_not_kept(document: Any) -> None:
    traces = Traces()
    traces.add(document)
    assert traces.newest("", 100) == []


def test_traces_are_bounded_and_spans_that_are_each_others_parents_do_not_hang_it() -> None:
    traces = Traces()
    for n in range(300):
        traces.add(export(SPAN | {"traceId": f"{n:032x}"}))
    shown = traces.newest("", 1_000)
    assert len(shown) == 100
    assert shown[0]["trace"] == f"{299:032x}"
    traces.add(export(*(SPAN | {"spanId": f"{n:016x}"} for n in range(1_000))))
    assert len(traces.newest("", 1_000)) < 500
    circle = [SPAN | {"traceId": "7" * 32, "spanId": a * 16, "parentSpanId": b * 16} for a, b in ("12", "21")]
    traces.add(export(*circle))
    assert not [one for one in traces.newest("", 1_000) if one["trace"] == "7" * 32]


def test_a_page_cannot_use_it_after_the_user_has_opened_it(
    inspected: LocalCloud, view: View, browser: Chromium, site: int
) -> None:
    """Whatever name the attacker knows it by: its own one, the loopback address, or one that rebinds."""
    shown = browser.open(inspected.info["view"])
    shown.wait_for("document.querySelector('#status').textContent === 'Live'")
    port = urlsplit(view.address).port
    body = json.dumps({"function": "command", "ms": 77})
    for name in ("evil.test", "127.0.0.1", "localhost"):
        page = browser.open(f"http://{name}:{site}/")
        assert page.run("return (await (await fetch('/')).text())").endswith("cookies: "), "the cookie stays at home"
        for address in (f"http://{view.host}", f"http://127.0.0.1:{port}", f"http://evil.test:{port}"):
            for options in ("{credentials: 'include'}", "{credentials: 'include', mode: 'no-cors'}"):
                got = page.run(f"return fetch('{address}/state', {options}).then((a) => a.text()).catch(() => '')")
                assert not got
            sent = f"{{method: 'POST', credentials: 'include', mode: 'no-cors', body: {json.dumps(body)}}}"
            page.run(f"await fetch('{address}/delay', {sent}).catch(() => null)")
            page.run(f"return navigator.sendBeacon('{address}/delay', {json.dumps(body)})")
            framed = f"""return await new Promise((done) => {{
              const frame = document.createElement('iframe');
              frame.onload = () => done(frame.contentDocument?.body.innerText ?? '');
              frame.src = '{address}/state';
              document.body.append(frame);
            }})"""
            assert "functions" not in page.run(framed)
    rebound = browser.open(f"http://evil.test:{port}/state")
    assert "printed" in rebound.run("return document.body.innerText")
    assert not any(one["delay_ms"] for one in view.state()["functions"])


def test_the_page_works_under_its_policy(inspected: LocalCloud, view: View, browser: Chromium) -> None:
    page = browser.open(inspected.info["view"])
    page.wait_for("document.querySelector('#status').textContent === 'Live'")
    assert page.run("return location.hash + document.cookie") == "", "neither the address nor a script has the secret"
    with connect(inspected.url("<img src=x onerror=window.owned=1>"), proxy=None, open_timeout=60) as socket:
        socket.send(json.dumps({"type": "command", "do": "raise"}))
        socket.recv(60)
        page.wait_for("document.querySelector('#connections tbody').textContent.includes('<img')")
        page.wait_for("document.querySelector('#invocations tbody .failed')?.textContent.includes('broken on purpose')")
        page.wait_for("document.querySelector('#lines tbody').textContent.includes('broken on purpose')")
        assert httpx.post(collector_of(inspected), json=export(CHILD, SPAN)).status_code == 200
        page.wait_for("document.querySelector('#spans tbody').textContent.includes('invoke_agent <img')")
        assert page.run("return getComputedStyle(document.querySelector('#spans .bar')).width") != "0px"
        page.run("document.querySelector('[aria-label^=\"Drop the connection\"]').click()")
        page.wait_for("document.querySelector('[aria-label^=\"Drop the connection\"]').textContent === 'Drop?'")
        socket.send(json.dumps({"type": "command", "do": "sleep", "seconds": 0, "name": "one"}))
        socket.recv(60)  # nothing is disturbed before it is confirmed
        page.run(f"{CONFIRM} confirm('Drop the connection')")
        with pytest.raises(ConnectionClosedError):
            socket.recv(60)
    page.wait_for("document.querySelector('#done').textContent.startsWith('Dropped ')")
    page.run(f"{CONFIRM} confirm('Delay command')")
    page.wait_for("document.querySelector('#functions tbody').textContent.includes('delayed 1,000 ms')")
    page.run("document.querySelector('[aria-label=\"Clear the faults of command\"]').click()")
    page.wait_for("!document.querySelector('#functions tbody').textContent.includes('delayed')")
    page.run("document.querySelector('#load').click()")
    page.wait_for("document.querySelector('#items details pre')?.textContent.includes('{')")
    assert page.run("return window.owned ?? document.images.length") == 0
    blocked = page.run("try { document.body.innerHTML = '<p>'; return 'set' } catch (error) { return error.name }")
    assert blocked == "TypeError"


def test_it_has_the_colours_of_the_page() -> None:
    view = (ROOT / "local/codelab_local/cloud_view/page/page.css").read_text()
    page = (ROOT / "clients/web/src/style.css").read_text()
    own = re.findall(r"(--[\w-]+): light-dark\((#\w+), (#\w+)\);", view)
    light, dark = (dict(re.findall(r"(--[\w-]+): (#\w+);", rules)) for rules in page.split("}\n", 2)[:2])
    assert len(own) > 10
    assert own == [(name, light[name], dark[name]) for name, *_ in own]


def test_without_inspect_nothing_of_it_is_there() -> None:
    """Neither a port nor a module: the start imports what it imported before."""
    program = "import codelab_local.cloud, sys; print([name for name in sys.modules if 'cloud_view' in name])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.strip() == "[]"


def _invoke(cloud: LocalCloud, event: dict[str, Any]) -> Any:
    answer = cloud.client("lambda").invoke(FunctionName="command", Payload=json.dumps(event))
    return json.loads(answer["Payload"].read())
