"""Decisions in the page: a click decides only what the user has seen, and what is remembered can be taken back."""

from typing import Any

import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_cards import ready
from tests.page.test_looks import violations

WRITE = call("write_file", path="notes/a.txt", content="milk\n")


def test_a_click_that_comes_with_the_question_decides_nothing(tab: Tab, model: ScriptedModel) -> None:
    """A card appears under the pointer of somebody who is about to click something else."""
    tab.run("""() => {
      window.clicked = 0;
      new MutationObserver(() => {
        const button = document.querySelector('.call.asking button.primary');
        if (button && !window.clicked) { window.clicked++; button.click(); }
      }).observe(document.body, { childList: true, subtree: true });
    }""")
    tab.say(model.script("early", Says("I create it.", calls=[WRITE]), Says("Done.")))
    tab.page.locator(".call.asking button.primary[aria-disabled=false]").wait_for()
    assert tab.run("() => window.clicked") == 1
    assert tab.page.locator(".call.asking").count() == 1
    assert tab.file("notes/a.txt") is None
    tab.press("Approve")
    tab.ended()
    assert tab.file("notes/a.txt") == "milk\n"


@pytest.mark.deep  # the frames are functions/test_rules.py's
def test_what_is_remembered_is_listed_and_can_be_revoked(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("kept", Says("", calls=[WRITE]), Says("", calls=[WRITE]), Says("Done.")))
    tab.press("Always allow…")
    tab.press("In this session")
    tab.ended()  # the second call was not asked about
    tab.press("Settings")
    rules = tab.page.get_by_role("region", name="Remembered decisions")
    assert "write_file notes/a.txt" in rules.get_by_role("listitem").inner_text()
    rules.get_by_role("button").click()
    rules.get_by_text("No decisions are remembered.").wait_for()


PLAN = ["Add a test for an empty name to test_main.py", "Return early in main.py"]
EXPLANATION = "`greet` reads the first letter **before** it looks at the length."


def propose(tab: Tab, model: ScriptedModel, name: str, *later: Says) -> Any:
    """The card of a plan that waits for a decision."""
    tab.say("/mode plan")
    tab.page.get_by_text("Mode: plan").wait_for()
    tab.say(model.script(name, Says("", calls=[call("propose_plan", steps=PLAN, explanation=EXPLANATION)]), *later))
    ready(tab)
    return tab.page.get_by_role("article", name="Plan")


@pytest.mark.deep  # the frames are functions/test_modes.py's
def test_an_accepted_plan_becomes_the_task_list(tab: Tab, model: ScriptedModel) -> None:
    write = call("write_file", path="a.txt", content="a\n")
    card = propose(tab, model, "plan-accepted", Says("", calls=[write]), Says("Done."))
    assert card.locator(".steps li").all_inner_texts() == PLAN
    assert card.locator("strong").inner_text() == "before", "the explanation is Markdown"
    mode = card.get_by_label("Carry it out in this mode")
    assert mode.input_value() == "code", "the one before"
    assert violations(tab) == []
    mode.select_option("manual")
    card.focus()
    tab.page.keyboard.press("Alt+y")
    card.get_by_text("accepted").wait_for()
    ready(tab)
    tasks = tab.page.get_by_role("list", name="Plan")
    assert tasks.locator("li > [dir]").all_inner_texts() == PLAN
    card.get_by_text("2 steps").click()
    assert card.locator(".steps li").all_inner_texts() == PLAN
    assert violations(tab) == []
    tab.press("Settings")
    assert tab.page.get_by_role("combobox", name="Mode", exact=True).input_value() == "manual"
    tab.page.keyboard.press("Escape")
    tab.press("Approve")
    tab.ended()


@pytest.mark.deep
def test_an_edited_plan_is_the_one_that_is_carried_out(tab: Tab, model: ScriptedModel) -> None:
    card = propose(tab, model, "plan-edited", Says("Carried out."))
    card.focus()
    tab.page.keyboard.press("Alt+e")
    lines = card.get_by_role("textbox", name="Steps, one per line")
    assert lines.input_value().split("\n") == PLAN
    assert violations(tab) == []
    lines.fill(" \n")
    tab.press("Accept the plan")
    card.get_by_role("alert").get_by_text("A plan has at least one step.").wait_for()
    lines.fill(f"{PLAN[1]}\n\n  Then look\u202e at it ")
    tab.press("Accept the plan")
    tab.ended()
    edited = [PLAN[1], "Then look⟨U+202E⟩ at it"]
    assert tab.page.get_by_role("list", name="Plan").locator("li > [dir]").all_inner_texts() == edited
    card.get_by_text("edited by you").wait_for()
    card.get_by_text("2 steps").click()
    assert card.locator(".steps li").all_inner_texts() == edited
    assert "Then look" in str(model.requests["plan-edited"][1])


@pytest.mark.deep
def test_a_rejected_plan_is_proposed_again(tab: Tab, model: ScriptedModel) -> None:
    again = call("propose_plan", steps=["Only look"])
    card = propose(tab, model, "plan-rejected", Says("", calls=[again]), Says("Done."))
    tab.press("Reject")
    card.get_by_role("textbox", name="What should the agent do instead?").fill("Only look at it")
    tab.page.keyboard.press("Enter")
    card.nth(1).wait_for()
    ready(tab)
    assert "Only look at it" in str(model.requests["plan-rejected"][1])
    assert card.first.locator(".state").inner_text() == "rejected"
    assert card.last.locator(".steps li").all_inner_texts() == ["Only look"]
    tab.press("Accept the plan")
    tab.ended()
    assert tab.page.get_by_role("list", name="Plan").locator("li > [dir]").all_inner_texts() == ["Only look"]


@pytest.mark.deep
@pytest.mark.parametrize("language", ["en-US", "ru-RU"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_plan_can_be_decided_about_in_any_theme_and_width(
    open_tab: OpenTab, model: ScriptedModel, theme: str, language: str
) -> None:
    tab = open_tab(color_scheme=theme).online()
    card = propose(tab, model, f"plan-{theme}-{language}", Says("Done."))
    tab.page.evaluate("(language) => localStorage.setItem('codelab.language', JSON.stringify(language))", language[:2])
    tab.page.reload()
    ready(tab)
    card = tab.page.locator(".call.asking")
    for _state in ("asked", "edited"):
        for width in (360, 1280, 2560):
            tab.page.set_viewport_size({"width": width, "height": 800})
            assert violations(tab) == []
            assert tab.run("() => document.documentElement.scrollWidth - innerWidth") <= 0
            sticks_out = "(it) => [...it.querySelectorAll('*')].some((one) => one.scrollWidth > it.clientWidth)"
            assert not card.evaluate(sticks_out), "nothing is wider than the card"
        card.focus()
        tab.page.keyboard.press("Alt+e")
        card.get_by_role("textbox").wait_for()
