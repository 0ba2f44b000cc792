"""Notes in the page: what the user types, in the browser and in the open folder, and nobody else's."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud
from websockets.sync.client import connect

from tests.conftest import TEMPLATE
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations
from tests.page.test_trouble import SECRET, token
from tests.waiting import until

PROJECT = ".codelab/notes.md"


def read_by_the_model(tab: Tab, model: ScriptedModel, name: str, turns: int = 1) -> str:
    tab.say(model.script(name, Says("Yes.")))
    tab.ended(turns)
    return str(model.requests[name][-1]["messages"])


def open_notes(tab: Tab) -> Any:
    tab.page.get_by_role("textbox", name="Message").press_sequentially("/notes")
    tab.page.keyboard.press("Enter")
    dialog = tab.page.get_by_role("dialog", name="Notes")
    dialog.wait_for()
    return dialog


@pytest.mark.deep  # a terminal does the same in client/test_notes.py
def test_notes_are_kept_read_changed_exported_and_taken_away(tab: Tab, model: ScriptedModel, tmp_path: Path) -> None:
    until(lambda: tab.file("main.py"))
    field, options = tab.page.get_by_role("textbox", name="Message"), tab.page.locator(".menu").get_by_role("option")
    field.press_sequentially("/remember Tabs in src/a.")
    until(lambda: options.count() == 2)
    assert "this browser" in options.first.inner_text()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("Kept: the agent reads it").wait_for()
    assert tab.file(PROJECT) == "- Tabs in src/a.\n"
    dialog = open_notes(tab)
    dialog.get_by_label("New note").fill("Be brief.")
    tab.press("Keep")
    dialog.locator("li", has_text="Be brief.").wait_for()
    tab.page.set_viewport_size({"width": 360, "height": 640})
    assert violations(tab) == []
    assert tab.run("() => document.querySelector('dialog').scrollWidth <= innerWidth")
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.page.keyboard.press("Escape")
    asked = read_by_the_model(tab, model, "page-notes")
    assert "- Be brief." in asked
    assert "- Tabs in src/a." in asked

    dialog = open_notes(tab)
    with tab.page.expect_download() as saved:
        tab.press("Export yours")
    saved.value.save_as(tmp_path / "notes.md")
    assert (tmp_path / "notes.md").read_text() == "- Be brief.\n", "the terminal's format"
    tab.press("Change Be brief.")
    dialog.get_by_label("Change", exact=True).fill("Be long.")
    tab.press("Save")
    tab.press("Take away Tabs in src/a.")
    until(lambda: dialog.locator("li").count() == 1)
    assert tab.file(PROJECT) == ""
    tab.page.keyboard.press("Escape")
    asked = read_by_the_model(tab, model, "page-notes-later", turns=2)
    assert "- Be long." in asked
    assert "Be brief." not in asked
    assert "Tabs in src/a." not in asked

    open_notes(tab)
    tab.press("Take away Be long.")
    tab.page.get_by_text("There are no notes.").wait_for()
    tab.page.reload()  # the session is an old one then, and still has them
    tab.online()
    assert "Be long." not in read_by_the_model(tab, model, "page-notes-none", turns=3)


@pytest.mark.deep
def test_notes_are_their_users_alone(open_tab: OpenTab, model: ScriptedModel) -> None:
    environment = {**model.environment, "AUTH_MODE": "jwt", "JWT_SECRET": SECRET}
    with LocalCloud(TEMPLATE, environment=environment) as guarded:
        tab = open_tab("", at=guarded)
        for name, notes in (("ann", 1), ("bob", 1), ("ann", 2)):
            tab.page.get_by_label("Token", exact=True).fill(token(SECRET, name))
            tab.press("Use it")
            tab.online()
            dialog = open_notes(tab)
            dialog.get_by_label("New note").fill(f"I am {name}.")
            tab.press("Keep")
            until(lambda dialog=dialog, notes=notes: dialog.locator("li").count() == notes)  # type: ignore[misc]
            assert set(re.findall(r"I am (\w+)", dialog.inner_text())) == {name}
            tab.page.keyboard.press("Escape")
            tab.press("Settings")
            tab.press("Sign out")


@pytest.mark.deep
def test_looking_at_a_session_of_another_client_does_not_replace_what_that_has_told(
    open_tab: OpenTab, cloud: LocalCloud, model: ScriptedModel
) -> None:
    session = "notes-of-two"
    with connect(cloud.url(session)) as other:
        told = {"type": "hello", "instructions": [{"path": "AGENTS.md", "content": "Use tabs."}]}
        other.send(json.dumps(told))
        until(lambda: json.loads(other.recv())["type"] == "session_info")
        tab = open_tab(session).online()
        dialog = open_notes(tab)
        dialog.get_by_label("New note").fill("Mine.")
        tab.press("Keep")
        dialog.locator("li").wait_for()
        tab.page.keyboard.press("Escape")
        message = {"type": "user_message", "content": model.script("notes-other", Says("Yes."))}
        other.send(json.dumps(message))
        tab.ended()
        asked = str(model.requests["notes-other"][0]["messages"])
        assert "Use tabs." in asked
        assert "Mine." not in asked
        assert "Mine." in read_by_the_model(tab, model, "notes-here", turns=2)
