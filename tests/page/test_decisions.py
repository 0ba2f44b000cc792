"""Decisions in the page: a click decides only what the user has seen, and what is remembered can be taken back."""

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.tab import Tab

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
