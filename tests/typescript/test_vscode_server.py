"""The packed extension in a real VS Code, in a real browser."""

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from infra import vscode
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.security.chromium import find
from tests.typescript import code_server
from tests.typescript.test_vscode import HOSTILE
from tests.waiting import until

pytestmark = pytest.mark.deep

PICTURE = vscode.ROOT / "docs/images/vscode.png"
SIZE = {"width": 1280, "height": 760}
PATIENCE = 240_000
GREETING = 'def greet(name: str) -> str:\n    return f"Hello, {name}!"\n'

#: Opens VS Code with a folder that has a file, for a server; gives the folder and the page.
OpenEditor = Callable[..., tuple[Path, Any]]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vscode.pack(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def open_editor(packed: Path, tmp_path: Path) -> Iterator[OpenEditor]:
    program = find()
    assert program is not None, "make test-deep needs Chromium: apt-get install chromium"
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test installs it")
    with ExitStack() as opened:
        driver = opened.enter_context(playwright.sync_playwright())

        def open_editor(cloud: LocalCloud, *, trusts: bool) -> tuple[Path, Any]:
            workspace = tmp_path / "project"
            workspace.mkdir()
            (workspace / "greeting.py").write_text(GREETING)
            server = code_server.code_server(tmp_path, packed, {"codelab.url": cloud.http})
            url = opened.enter_context(server)
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            opened.callback(browser.close)
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(PATIENCE)
            page.goto(f"{url}/?folder={workspace}")
            page.get_by_role("button", name="Yes, I trust" if trusts else "No, I don't trust").click()
            page.locator('.activitybar a[aria-label="CodeLab"]').click()
            conversation(page).locator(".status.online").wait_for(state="attached")
            return workspace, page

        yield open_editor


def conversation(page: Any) -> Any:
    return page.frame_locator("iframe.webview").frame_locator("iframe#active-frame")


def ask(page: Any, text: str) -> None:
    conversation(page).locator("textarea").fill(text)
    conversation(page).get_by_role("button", name="Send").click()


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


def test_a_change_is_compared_and_edited_in_the_editor_then_written(
    open_editor: OpenEditor, demo_cloud: LocalCloud
) -> None:
    """With UPDATE_PICTURE=1, the picture of the docs is taken anew."""
    workspace, page = open_editor(demo_cloud, trusts=True)
    ask(page, "Replace “Hello” with “Good morning” in greeting.py")
    view = conversation(page)
    view.get_by_role("button", name="Compare in the editor").click()
    proposed = page.locator(".modified-in-monaco-diff-editor .view-line", has_text="Good morning")
    proposed.wait_for()
    page.locator(".original-in-monaco-diff-editor .view-line", has_text="Hello").wait_for()
    if os.environ.get("UPDATE_PICTURE"):
        page.wait_for_timeout(2_000)
        page.screenshot(path=PICTURE)
    proposed.click()
    page.keyboard.press("End")
    page.keyboard.type("  # changed by hand")
    view.get_by_role("button", name="Approve as edited").wait_for()
    page.get_by_role("button", name="Approve This Change").click()
    view.locator(".call.completed", has_text="You changed the call").wait_for()
    wanted = GREETING.replace("Hello", "Good morning").replace('!"\n', '!"  # changed by hand\n')
    assert (workspace / "greeting.py").read_text() == wanted
    until(lambda: page.locator(".monaco-diff-editor").count() == 0)


def test_a_command_runs_in_a_terminal_and_the_conversation_outlives_the_window(
    open_editor: OpenEditor, cloud: LocalCloud, model: ScriptedModel
) -> None:
    command = call("run_command", command="echo from the $((40 + 2))nd command > made.txt; cat made.txt")
    message = model.script("vscode-server-command", Says("", [command]), Says("It ran."))
    workspace, page = open_editor(cloud, trusts=True)
    view = conversation(page)
    view.locator("textarea").press_sequentially("@gre")
    view.locator(".paths li", has_text="greeting.py").click()
    assert view.locator("textarea").input_value() == "@greeting.py "
    ask(page, message)
    view.get_by_role("button", name="Approve").click()
    view.get_by_text("It ran.").wait_for()
    assert (workspace / "made.txt").read_text() == "from the 42nd command\n"
    page.locator(".terminal-wrapper.active").wait_for()
    view.locator(".call .output", has_text="from the 42nd command").wait_for()
    page.reload()
    view.get_by_text("It ran.").wait_for()


def test_without_trust_nothing_is_executed_and_no_answer_runs_in_the_view(
    open_editor: OpenEditor, cloud: LocalCloud, model: ScriptedModel
) -> None:
    message = model.script("vscode-server-hostile", Says(HOSTILE))
    _, page = open_editor(cloud, trusts=False)
    view = conversation(page)
    view.get_by_text("You do not trust this workspace").wait_for()
    ask(page, message)
    view.locator(".answer", has_text="onerror").wait_for()
    assert view.locator(":is(img, script:not([nonce]), iframe)").count() == 0
    assert view.locator(".answer a").count() == 1
