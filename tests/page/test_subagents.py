"""Subagents in the page: a line for each, with its words and calls in it."""

import threading

import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.tab import Tab
from tests.page.test_cards import ready
from tests.page.test_looks import violations

EVIL = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


@pytest.mark.deep  # conversations/test_subagents.py has the frames
def test_a_line_for_each_has_its_words_and_calls_in_it(tab: Tab, model: ScriptedModel) -> None:
    goes_on = threading.Event()
    read, write = call("read_file", path="main.py"), call("write_file", path="new.txt", content="new\n")
    look = model.script("page-look", Says(f"I look {EVIL}", [read]), Says("Found it.", until=goes_on))
    make = model.script("page-make", Says("", [write]), Says("Made it."))
    tasks = {"explore": f"{look} Look {EVIL}", "universal": f"{make} Write"}
    calls = [call("delegate", agent=agent, task=task) for agent, task in tasks.items()]
    tab.say(model.script("page-delegates", Says("Asking.", calls), Says("All done.")))
    ready(tab)
    page = tab.page
    explore, universal = page.locator(".subagent").all()
    assert universal.locator("summary").first.inner_text().split("\n")[-1] == "wants your approval"
    assert universal.locator(".call.asking").is_visible(), "what is asked is unfolded"
    assert page.locator(".call:not(.subagent *)").count() == 0

    explore.locator(".call.completed").wait_for(state="attached")
    assert not explore.locator(".call").is_visible()
    assert "working" in explore.locator("summary").first.inner_text()
    explore.locator("summary").first.click()
    assert explore.locator(".call .subject").inner_text() == "main.py"
    shown = explore.inner_text()
    assert "I look <img src=x onerror=alert(1)>⟨U+001B⟩[2J⟨U+202E⟩" in shown
    assert page.locator(".subagent img").count() == 0
    assert violations(tab) == []

    page.reload()
    ready(tab)
    assert page.locator(".subagent").count() == 2
    tab.press("Approve")
    goes_on.set()
    tab.ended()
    assert page.locator(".subagent.completed").count() == 2
    assert page.locator(".subagent.completed .call.completed").count() == 2
    assert tab.file("new.txt") == "new\n"

    page.reload()
    tab.ended()
    page.locator(".subagent.completed").nth(1).wait_for()
    page.locator(".subagent summary").nth(1).click()
    page.get_by_text("Made it.").wait_for()
    assert violations(tab) == []
