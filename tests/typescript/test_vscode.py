"""The extension for VS Code: its own tests in a faked editor, its types, its view in a browser, its package."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from tests.fakes.http import Site, answering
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run
from tests.security.chromium import Chromium, Page, find
from tests.typescript import NODE, PACKAGE

EXTENSION = PACKAGE.parent / "vscode"
#: Replaces the second line of a.txt, after it was read.
EDIT = call("edit_file", path="a.txt", edits=[{"old": "two\n", "new": "three\n"}])
COMMAND = "echo out; echo err >&2; echo [$ELECTRON_RUN_AS_NODE]; exit 3"


def scripts(model: ScriptedModel) -> None:
    """What the model answers to the messages of clients/vscode/test."""
    model.script("vscode-hello", Says("Hello."))
    model.script("vscode-notes", Says("Yes."), Says("Yes."))
    model.script("vscode-edit", Says("", [call("read_file", path="a.txt")]), Says("", [EDIT]), Says("It was changed."))
    model.script("vscode-command", Says("", [call("run_command", command=COMMAND)]), Says("It ran."))
    model.script("vscode-sleep", Says("", [call("run_command", command="echo begun; sleep 60")]), Says("It ended."))
    read, write = call("read_file", path="link/passwd"), call("write_file", path="link/codelab-test", content="x")
    looks = [call("view_image", path=path) for path in ("shot.png", "text.png", "link/a.png")]
    model.script("vscode-image", Says("", [*looks, call("read_file", path="shot.png")]), Says("A dot."))
    reads = [call("git.status"), call("git.diff", path="."), call("git.log", limit=5)]
    model.script("vscode-git", Says("", reads), Says("I have read it."))
    model.script("vscode-outside", Says("", [read]), Says("", [write]), Says("It is outside."))


def test_the_extension_passes_its_own_tests(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    node = node_with(EXTENSION, NODE)
    scripts(model)
    built = run(node, "test/build.mjs", str(tmp_path), cwd=EXTENSION)
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "CODELAB_URL": cloud.http, "XDG_STATE_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}
    environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    tests = sorted(map(str, tmp_path.glob("*.test.cjs")))
    assert len(tests) > 1
    done = run(node, "--test", "--test-concurrency=1", *tests, cwd=EXTENSION, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (str(request["messages"]) for request in model.requests["vscode-notes"])
    assert [text in first for text in ("Be kind.", "- Use tabs.", "- My name is Ann.")] == [True] * 3
    seen = json.dumps([request["messages"] for request in model.requests["vscode-image"]])
    assert seen.count('"data:image/png;base64,iVBORw0KGgo') == 1
    assert [text in second for text in ("Be kind.", "- Use tabs.", "- My name is Bob.")] == [True, False, True]


@pytest.mark.deep
def test_it_is_strictly_typed() -> None:
    """Against the interface of the oldest editor that it names."""
    node = node_with(EXTENSION, NODE)
    done = run(node, "node_modules/typescript/bin/tsc", cwd=EXTENSION)
    assert done.returncode == 0, done.stdout


#: The page as the extension writes it, in a frame that stands for the editor.
VIEW = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>CodeLab</title>
<link rel="stylesheet" href="/view.css"><div id="app"></div>
<script nonce="n">
  window.told = []; window.wrong = []; let state;
  addEventListener("securitypolicyviolation", (event) => wrong.push(event.violatedDirective + " " + event.blockedURI));
  addEventListener("error", (event) => wrong.push(event.message));
  const [getState, setState] = [() => state, (one) => (state = one)];
  window.acquireVsCodeApi = () => ({ postMessage: (one) => told.push(one), getState, setState });
</script><script nonce="n" src="/view.js"></script></html>"""
POLICY = "default-src 'none'; style-src 'self'; script-src 'nonce-n'; img-src data:"
AROUND = {
    "connection": "online", "trouble": "", "needsToken": False, "status": "idle", "title": "", "mode": "code",
    "actingMode": "code", "model": "m", "models": ["m", "other"], "agent": "", "plan": [], "queue": [], "usage": "",
    "hasEarlier": False, "restriction": "",
}  # fmt: skip
CHANGE = {"path": "a.txt", "kind": "changed", "added": 1, "removed": 1, "lines": ["-two", "+three"], "notes": []}
CALL = {
    "kind": "call", "id": "c", "tool": "edit_file", "subject": "a.txt", "state": "asking", "isDeciding": False,
    "changes": [CHANGE], "problem": "", "args": "", "isCut": False, "isEdited": False, "output": "", "result": "",
    "images": [], "decision": "", "feedback": "",
    "remember": {"rule": "edit_file of a.txt", "scopes": ["session"]},
}  # fmt: skip
HOSTILE = """<img src=x onerror="wrong.push('ran')"><script>wrong.push('ran')</script>

[run](command:workbench.action.quit) ![i](https://example.com/i.png) [site](https://example.com)
<iframe src=//example.com>
"""


@pytest.fixture
def view(tmp_path: Path) -> Iterator[Page]:
    """The view in a browser, without an editor around it."""
    program = find()
    assert program is not None, "make test-deep needs Chromium: apt-get install chromium"
    node = node_with(EXTENSION, NODE)
    built = run(node, "test/build.mjs", str(tmp_path), cwd=EXTENSION)
    assert built.returncode == 0, built.stderr
    kinds = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY}
    script, style = (tmp_path / "view.js").read_bytes(), (EXTENSION / "media/view.css").read_bytes()
    served = {
        "/": answering(VIEW, headers=kinds),
        "/view.js": answering(script, headers={"Content-Type": "text/javascript"}),
        "/view.css": answering(style, headers={"Content-Type": "text/css"}),
    }
    with Site(served) as site, Chromium(program, {}) as browser:
        page = browser.open(site.url)
        page.wait_for("told.some((one) => one.type === 'ready')")
        yield page
        assert page.run("return wrong") == []


def show(page: Page, *items: dict[str, Any], **around: Any) -> None:
    delta = {"order": [item["id"] for item in items], "items": items, "around": {**AROUND, **around}}
    page.run(f"postMessage({json.dumps({'type': 'delta', 'isWhole': True, 'delta': delta})})")
    page.wait_for(f"document.querySelectorAll('.scroller > *').length === {len(items) or 1}")


def press(page: Page, text: str) -> None:
    found = f"[...document.querySelectorAll('button, summary')].find((one) => one.textContent === {json.dumps(text)})"
    page.wait_for(f"!!{found}")
    page.run(f"{found}.click()")


@pytest.mark.deep
def test_nothing_of_what_a_model_says_runs_or_loads_in_the_view(view: Page) -> None:
    show(view, {"kind": "text", "id": "t", "text": HOSTILE, "isFinal": True}, {**CALL, "problem": HOSTILE})
    assert (
        view.run("return document.querySelectorAll('#app :is(img, script, iframe, style, form, object)').length") == 0
    )
    links = view.run("return [...document.querySelectorAll('a')].map((one) => one.href)")
    assert links == ["https://example.com/"]
    assert "onerror" in view.run("return document.querySelector('.answer').textContent")


@pytest.mark.deep
def test_a_call_is_decided_in_the_view(view: Page) -> None:
    show(view, CALL)
    assert view.run("return document.querySelector('.lines').textContent") == "-two\n+three\n"
    for text in ("Compare in the editor", "Edit", "Approve", "Always…", "Always in this conversation", "Reject"):
        press(view, text)
    view.wait_for("!!document.querySelector('.call input')")
    view.run("""const field = document.querySelector('.call input'); field.value = 'No.';
        field.dispatchEvent(new Event('input', { bubbles: true }))""")
    press(view, "Reject")
    assert view.run("return told.slice(1)") == [
        {"type": "diff", "id": "c"},
        {"type": "edit", "id": "c"},
        {"type": "approve", "id": "c"},
        {"type": "approve", "id": "c", "remember": "session"},
        {"type": "reject", "id": "c", "feedback": "No."},
    ]


@pytest.mark.deep
def test_the_images_of_a_result_are_seen_in_the_view(view: Page) -> None:
    dot = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    show(view, {**CALL, "changes": [], "state": "completed", "images": [{"media_type": "image/gif", "data": dot}]})
    view.wait_for("document.querySelector('.call img')?.naturalWidth === 1")


@pytest.mark.deep
def test_a_message_is_written_with_a_file_that_is_picked(view: Page) -> None:
    show(view)
    view.run("""const field = document.querySelector('textarea'); field.value = 'Read @ma';
        field.setSelectionRange(8, 8); field.dispatchEvent(new Event('input', { bubbles: true }))""")
    view.wait_for("told.some((one) => one.type === 'paths' && one.text === 'ma')")
    view.run("postMessage({ type: 'paths', text: 'ma', paths: ['src/main.py', 'a b/ma.txt'] })")
    view.wait_for("document.querySelectorAll('.paths li').length === 2")
    key = "document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', { key: KEY, bubbles: true }))"
    for name in ("ArrowDown", "Enter"):
        view.run(key.replace("KEY", json.dumps(name)))
        view.run("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    view.wait_for("document.querySelector('textarea').value === 'Read @a\\\\ b/ma.txt '")
    view.run(key.replace("KEY", '"Enter"'))
    view.wait_for("told.at(-1).type === 'prompt'")
    assert view.run("return told.at(-1).text") == "Read @a\\ b/ma.txt "
