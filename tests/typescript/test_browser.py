"""The TypeScript client in a real browser: in a page that is reloaded, in two pages, and in a worker."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_local import LocalCloud

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
