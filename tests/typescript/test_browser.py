"""The TypeScript client in a real browser: in a page that is reloaded, in two pages, and in a worker."""

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from codelab_local import LocalCloud
from websockets.sync.client import connect

from tests.conftest import SECRET, TEMPLATE
from tests.fakes.http import Site, answering
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run
from tests.security.chromium import Chromium, Page, find
from tests.typescript import NODE, PACKAGE

pytestmark = pytest.mark.deep

_names = (f"ts_page_{n}" for n in itertools.count(1))

#: Opens a session whose tool counts its executions, and takes as long as the page says.
OPEN = """
const open = (sessionId, ms) => codelab.connect({ url: URL, sessionId, tools: {
  read_file: async ({ path }) => {
    localStorage.setItem(sessionId, Number(localStorage.getItem(sessionId)) + 1);
    await new Promise((done) => setTimeout(done, ms));
    return { content: `content of ${path}` };
  },
} });
const ended = (session) => new Promise((done) => session.on('turn_end', done));
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The client as a script that defines `codelab`."""
    node, built = node_with(PACKAGE, NODE), tmp_path_factory.mktemp("bundle") / "client.js"
    how = ("--bundle", "--format=iife", "--global-name=codelab", f"--outfile={built}", "--log-level=error")
    done = run(node, "node_modules/esbuild/bin/esbuild", "src/index.ts", *how, cwd=PACKAGE)
    assert done.returncode == 0, done.stderr
    return Path(built).read_bytes()


@pytest.fixture(scope="module")
def site(script: bytes) -> Iterator[str]:
    page = b"<!doctype html><title>an IDE</title><script src=client.js></script>"
    html = answering(page, headers={"Content-Type": "text/html; charset=utf-8"})
    with Site({"/": html, "/client.js": answering(script, headers={"Content-Type": "text/javascript"})}) as running:
        yield f"{running.url}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    program = find()
    assert program is not None, "make test-deep needs Chromium: apt-get install chromium"
    with Chromium(program, {}) as running:
        yield running


def opening(cloud: LocalCloud) -> str:
    return OPEN.replace("URL", json.dumps(cloud.http))


def executions(page: Page, session: str) -> int:
    return int(page.run(f"return Number(localStorage.getItem('{session}'))"))


def test_a_page_talks_and_executes(cloud: LocalCloud, model: ScriptedModel, browser: Chromium, site: str) -> None:
    message = model.script("ts-page", Says("", [call("read_file", path="a")]), Says("It was read."))
    page = browser.open(site)
    talk = f"{opening(cloud)} const s = await open('{next(_names)}', 0); return await s.prompt('{message}').text()"
    assert page.run(talk) == "It was read."


def test_a_reload_executes_nothing_again(cloud: LocalCloud, model: ScriptedModel, browser: Chromium, site: str) -> None:
    message = model.script("ts-reload", Says("", [call("read_file", path="a")]), Says("It was interrupted."))
    page, session = browser.open(site), next(_names)
    page.run(f"{opening(cloud)} (await open('{session}', 1e9)).prompt('{message}')")
    page.wait_for(f"localStorage.getItem('{session}') === '1'")
    page.run("window.old = true; location.reload()")
    page.wait_for("!window.old && document.readyState === 'complete'")
    again = (
        f"{opening(cloud)} const s = codelab.createSession({{ url: {json.dumps(cloud.http)}, sessionId: '{session}', "
    )
    again += "tools: { read_file: () => localStorage.setItem('again', 1) } });"
    end = page.run(f"{again} const end = ended(s); await s.open(); return (await end).reason")
    assert end == "completed"
    assert executions(page, session) == 1
    assert page.run("return localStorage.getItem('again')") is None
    results = [one for one in model.requests["ts-reload"][-1]["messages"] if one["role"] in ("tool", "user")]
    assert "not executed again" in json.dumps(results)


def test_of_two_pages_one_executes(cloud: LocalCloud, model: ScriptedModel, browser: Chromium, site: str) -> None:
    message = model.script("ts-two-pages", Says("", [call("read_file", path="a")]), Says("It was read once."))
    one, two, session = browser.open(site), browser.open(site), next(_names)
    one.run(f"{opening(cloud)} window.s = await open('{session}', 3000); window.turn = s.prompt('{message}')")
    one.wait_for(f"localStorage.getItem('{session}') === '1'")
    # The second page becomes the executor when the first one's connection breaks, and asks the journal.
    two.run(f"{opening(cloud)} window.s = await open('{session}', 0); window.end = ended(s)")
    one.run("s.wire.cut()")
    assert two.run("return (await end).reason") == "completed"
    assert one.run("return await turn.text()") == "It was read once."
    assert executions(two, session) == 1
    assert "content of a" in json.dumps(model.requests["ts-two-pages"][-1])


def test_a_worker_talks(cloud: LocalCloud, model: ScriptedModel, browser: Chromium, site: str) -> None:
    """As the extensions of VS Code for the Web do."""
    message = model.script("ts-worker", Says("From a worker."))
    work = f"""
      importScripts('{site}client.js');
      codelab.connect({{ url: {json.dumps(cloud.http)}, sessionId: '{next(_names)}' }})
        .then((s) => s.prompt('{message}').text()).then(postMessage, (error) => postMessage(String(error)));
    """
    body = f"const worker = new Worker(URL.createObjectURL(new Blob([{json.dumps(work)}])));"
    page = browser.open(site)
    assert (
        page.run(f"{body} return await new Promise((done) => worker.onmessage = (e) => done(e.data))")
        == "From a worker."
    )


#: Keeps the times (ms) of all connections that the page tries, and opens a session with one token after the other.
COUNTED = """
window.tried = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); tried.push(performance.now()); }
};
const newest = (tokens) => tokens.length > 1 ? tokens.shift() : tokens[0];
const session = (tokens) => codelab.createSession({ url: URL, token: () => newest(tokens) });
"""


def token(user: str, secret: str = SECRET, **claims: Any) -> str:
    now = int(time.time())
    return jwt.encode({"sub": user, "iat": now, "exp": now + 600, **claims}, secret, "HS256")


@pytest.fixture(scope="module")
def strict(model: ScriptedModel) -> Iterator[LocalCloud]:
    """A system with real tokens that lets a user connect twice a minute."""
    environment = {"AUTH_MODE": "jwt", "JWT_SECRET": SECRET, "CONNECTIONS_PER_MINUTE": "2"}
    with LocalCloud(TEMPLATE, environment={**model.environment, **environment}) as running:
        yield running


def test_a_refused_token_is_told_from_a_server_out_of_reach(strict: LocalCloud, browser: Chromium, site: str) -> None:
    """The browser tells of neither: both connections end with 1006."""
    page = browser.open(site)
    counted = COUNTED.replace("URL", json.dumps(strict.http))
    forged = [token("ann", "another secret, which is long enough", n=n) for n in range(9)]
    refusal = "const refusal = (tokens) => session(tokens).open().catch(({ kind, message }) => [kind, message])"
    assert page.run(f"{counted} {refusal}; return [await refusal({json.dumps(forged)}), tried.length]") == [
        ["unauthorized", "The server does not accept the token"],
        2,
    ]
    nobody = COUNTED.replace("URL", json.dumps("http://127.0.0.1:1"))
    kind, message = page.run(f"{nobody} {refusal}; return await refusal({json.dumps([token('ann')])})")
    assert (kind, message.startswith("Nothing answers at ws://127.0.0.1:1")) == ("unreachable", True)


def test_a_refused_token_is_renewed(strict: LocalCloud, model: ScriptedModel, browser: Chromium, site: str) -> None:
    message = model.script("ts-renewed", Says("Renewed."))
    tokens = [token("bob"), token("bob", "another secret, which is long enough"), token("bob")]
    talk = f"const s = session({json.dumps(tokens)}); await s.open(); return await s.prompt('{message}').text()"
    assert browser.open(site).run(f"{COUNTED.replace('URL', json.dumps(strict.http))} {talk}") == "Renewed."


def test_too_many_connections_are_told_and_do_not_become_a_storm(
    strict: LocalCloud, browser: Chromium, site: str
) -> None:
    while time.time() % 60 > 40:  # the quota's minute must not end during the test
        time.sleep(1)
    url, headers = strict.url("crowd"), {"Authorization": f"Bearer {token('cid')}"}
    with connect(url, additional_headers=headers), connect(url, additional_headers=headers):
        wait = f"""
          {COUNTED.replace("URL", json.dumps(strict.http))}
          const s = session([{json.dumps(token("cid"))}]);
          const offline = await new Promise((done) => {{ s.on('offline', done); s.open().catch(() => {{}}); }});
          await new Promise((done) => setTimeout(done, 5_000));
          return [{{ ...offline.error }}, offline.why, offline.retryInMs, tried.length];
        """
        error, reason, retry_in_ms, tried = browser.open(site).run(wait)
    assert (error["kind"], error["code"]) == ("refused", "RATE_LIMITED")
    assert reason == "Over the quota of 2 new connections per minute"
    assert 0 < error["retryAfter"] <= 60
    assert retry_in_ms > (error["retryAfter"] - 1) * 1_000
    assert tried == 1
