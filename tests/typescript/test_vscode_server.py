"""The packed extension in a real VS Code, in a real browser."""

import json
import os
import zipfile
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from infra import vscode
from tests.fakes.model.server import ScriptedModel
from tests.security.chromium import find
from tests.typescript import code_server
from tests.typescript.test_vscode import scripts

pytestmark = pytest.mark.deep

PICTURE = vscode.ROOT / "docs/images/vscode.png"
SIZE = {"width": 1280, "height": 800}
PATIENCE = 240_000


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vscode.pack(tmp_path_factory.mktemp("packed"))


def test_the_package_has_what_it_needs_and_the_same_bytes_each_time(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = {name.removeprefix("extension/") for name in archive.namelist() if name.startswith("extension/")}
        bundles = {f"dist/{name}.js" for name in ("desktop", "view", "web")}
        media = {f"media/{name}" for name in ("icon.png", "icon.svg", "view.css")}
        assert names == {"package.json", "readme.md", "LICENSE.txt", *bundles, *media}
        assert b'require("node:' not in archive.read("extension/dist/web.js")
    assert packed.stat().st_size < 200_000
    assert vscode.pack(tmp_path).read_bytes() == packed.read_bytes()


def test_the_editor_is_the_oldest_that_the_extension_names() -> None:
    code_server.install()
    engines = json.loads((vscode.EXTENSION / "package.json").read_text("utf-8"))["engines"]
    assert engines["vscode"] == f"^{code_server.version().rpartition('.')[0]}.0"


def test_a_change_waits_with_its_difference_and_the_editor_compares_it(
    packed: Path, tmp_path: Path, cloud: LocalCloud, model: ScriptedModel
) -> None:
    """With UPDATE_PICTURE=1, the picture of the docs is taken anew."""
    program = find()
    assert program is not None, "make test-deep needs Chromium: apt-get install chromium"
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test installs it")
    scripts(model)
    workspace = tmp_path / "project"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    server = code_server.code_server(tmp_path, packed, {"codelab.url": cloud.http})
    with server as url, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(PATIENCE)
        page.goto(f"{url}/?folder={workspace}")
        page.get_by_text("Yes, I trust the authors").click()
        page.locator('.activitybar a[aria-label="CodeLab"]').click()
        view = page.frame_locator("iframe.webview").frame_locator("iframe#active-frame")
        view.locator(".status.online").wait_for(state="attached")
        view.locator("textarea").fill("[[vscode-edit]]")
        view.get_by_text("Send").click()
        view.get_by_role("button", name="Approve", exact=True).wait_for()
        view.get_by_text("Compare in the editor").click()
        page.locator(".monaco-diff-editor").wait_for()
        if os.environ.get("UPDATE_PICTURE"):
            page.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": 348, "height": SIZE["height"]})
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"
        browser.close()
