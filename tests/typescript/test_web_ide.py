"""The web IDE of examples/web-ide in a real browser, with the demonstration model; and its picture in the docs."""

import base64
import json
import os
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from tests.fakes.http import Site, answering
from tests.node import node_with
from tests.security.chromium import Chromium, find
from tests.typescript import NODE, PACKAGE, sole_builder
from tests.typescript.test_package import npm

EXAMPLE = PACKAGE.parents[1] / "examples/web-ide"
PICTURE = PACKAGE.parents[1] / "docs/images/web-ide.png"
SIZE = {"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": False}
#: Puts a text into the message field, as a user does.
WRITE = """
  const field = document.querySelector('form input');
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, TEXT);
  field.dispatchEvent(new Event('input', { bubbles: true }));
"""
APPROVE = "[...document.querySelectorAll('li button')].find((one) => one.textContent === 'Approve' && !one.disabled)"
FILE = "[...document.querySelectorAll('nav button')].find((one) => one.textContent === 'greeting.py')"


def test_it_stays_short() -> None:
    assert len((EXAMPLE / "src/main.tsx").read_text().splitlines()) <= 210


@pytest.mark.deep
def test_the_agent_changes_a_file_after_its_difference_was_approved(demo_cloud: LocalCloud) -> None:
    """With UPDATE_PICTURE=1, the picture is taken anew."""
    program = find()
    assert program is not None, "make test-deep needs Chromium: apt-get install chromium"
    node_with(PACKAGE, NODE)
    node_with(EXAMPLE, NODE)
    with sole_builder():
        npm("run", "build", cwd=PACKAGE)
        for script in ("check", "build"):
            npm("run", script, cwd=EXAMPLE)
    files = {"/": "index.html", "/dist/main.js": "dist/main.js"}
    kinds = {".html": "text/html; charset=utf-8", ".js": "text/javascript"}
    served = {
        path: answering((EXAMPLE / name).read_bytes(), headers={"Content-Type": kinds[Path(name).suffix]})
        for path, name in files.items()
    }
    with Site(served) as site, Chromium(program, {}) as browser:
        page = browser.open(f"{site.url}/?server=ws://127.0.0.1:{demo_cloud.info['port']}")
        page.command("Emulation.setDeviceMetricsOverride", SIZE)
        page.wait_for("document.querySelector('[role=status]')?.textContent === 'idle'")
        page.run(f"{FILE}.click()")
        page.run(WRITE.replace("TEXT", json.dumps("Replace “Hello” with “Good morning” in greeting.py")))
        page.run("document.querySelector('form').requestSubmit()")
        page.wait_for(f"!!{APPROVE}")
        page.wait_for("document.querySelector('li .cm-deletedChunk')?.textContent.includes('Hello')")
        assert "Good morning" not in page.run("return document.querySelector('.editor').textContent")
        if os.environ.get("UPDATE_PICTURE"):
            PICTURE.write_bytes(base64.b64decode(page.command("Page.captureScreenshot", {"format": "png"})["data"]))
        page.run(f"{APPROVE}.click()")
        page.wait_for("document.querySelector('.editor').textContent.includes('Good morning')")
        page.wait_for("document.querySelector('li.call em').textContent === 'completed'")
        page.wait_for("document.querySelector('[role=status]').textContent === 'idle'")
