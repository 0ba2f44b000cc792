"""Cards of calls: the question is found, decided by keys, and stays with its difference once it is decided."""

import re
import threading
from functools import partial
from typing import Any

import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations
from tests.waiting import until


def ready(tab: Tab, calls: int = 1) -> Any:
    """The cards that ask, once a click on each would count."""
    found = tab.page.locator(".call.asking:has(button.primary[aria-disabled=false])")
    found.nth(calls - 1).wait_for()
    return found


def test_a_decided_card_keeps_its_difference_which_can_be_looked_at_and_undone(tab: Tab, model: ScriptedModel) -> None:
    before = until(lambda: tab.file("main.py"))
    assert before is not None
    write = call("write_file", path="main.py", content="print('new')\nprint('er')\n")
    tab.say(model.script("keeps", Says("", calls=[write]), Says("Done.")))
    ready(tab)
    tab.press("Approve")
    tab.ended()
    card = tab.page.locator(".call.completed")
    card.locator(".diff .added").get_by_text("print('new')").wait_for()
    removed = len([line for line in before.splitlines() if line not in ("print('new')", "print('er')")])
    assert card.locator(".counts").inner_text().split("\n")[-2:] == ["+2", f"−{removed}"]
    tab.press("Open main.py")
    tab.page.get_by_role("textbox", name="Editor: main.py").get_by_text("print('er')").wait_for()
    tab.save("main.py", "# of the user\n")
    tab.press("Undo")
    card.get_by_role("alert").get_by_text("Nothing was undone: main.py was changed meanwhile").wait_for()
    assert tab.file("main.py") == "# of the user\n"
    tab.save("main.py", "print('new')\nprint('er')\n")
    tab.press("Undo")
    card.get_by_text("Undone", exact=True).wait_for()
    assert tab.file("main.py") == before
    assert card.get_by_role("button", name="Undo").count() == 0

    tab.page.reload()
    tab.ended()
    told = tab.page.locator(".composer .told")
    assert "I have undone your change of main.py" in told.inner_text()
    tab.say(model.script("undone", Says("I see.")))
    tab.ended(2)
    assert told.count() == 0, "it is told once"
    assert "I have undone your change of main.py" in tab.page.locator(".said").last.inner_text()
    assert "I have undone your change of main.py" in str(model.requests["undone"][0])
    card.get_by_text("What the file had at that time is no longer known.").wait_for()
    assert card.locator(".diff .content").inner_text() == "print('new')\nprint('er')\n"
    assert violations(tab) == []


@pytest.mark.deep  # the first test undoes too
def test_a_deleted_file_comes_back(tab: Tab, model: ScriptedModel) -> None:
    before = until(lambda: tab.file("main.py"))
    tab.say(model.script("deletes", Says("", calls=[call("delete_file", path="main.py")]), Says("Done.")))
    ready(tab)
    tab.press("Approve")
    tab.ended()
    assert tab.file("main.py") is None
    tab.press("Undo")
    until(lambda: tab.file("main.py") == before)


@pytest.mark.deep  # test_conversation.py reviews hunks
def test_what_is_not_decided_in_a_review_is_named_first(tab: Tab, model: ScriptedModel) -> None:
    before = until(lambda: tab.file("greeter/text.py"))
    assert before is not None
    after = before.replace("Hello", "Good morning").replace("Goodbye", "Farewell")
    asked = Says("", calls=[call("write_file", path="greeter/text.py", content=after)])
    tab.say(model.script("undecided", asked, Says("Done.")))
    ready(tab)
    assert tab.page.get_by_role("button", name="Edit", exact=True).count() == 0, "a text is edited in the review"
    assert tab.page.locator(".asking kbd").all_inner_texts() == ["Alt+Y", "Alt+E", "Alt+N", "Alt+A"]
    tab.page.keyboard.press("Alt+e")
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_text("0 of 2 changes decided").wait_for()
    tab.page.locator("[name=reject]").first.click()
    dialog.get_by_text("1 of 2 changes decided").wait_for()
    tab.press("Apply the reviewed text")
    place = next(number for number, line in enumerate(after.splitlines(), 1) if "Farewell" in line)
    dialog.get_by_text(f"Not decided, and applied as proposed: greeter/text.py, line {place}").wait_for()
    assert violations(tab) == []
    assert tab.file("greeter/text.py") == before
    tab.press("Accept all")
    dialog.get_by_text("2 of 2 changes decided").wait_for()
    tab.press("Apply the reviewed text")
    tab.ended()
    assert tab.file("greeter/text.py") == before.replace("Goodbye", "Farewell")
    tab.page.locator(".call.completed").get_by_text("edited by you").wait_for()


@pytest.mark.deep  # the test of what is off the screen uses the keys too
def test_keys_decide_about_the_card_that_has_the_focus(tab: Tab, model: ScriptedModel) -> None:
    calls = [call("write_file", path=f"{name}.txt", content=f"{name}\n") for name in ("one", "two")]
    tab.say(model.script("keys-decide", Says("", calls=calls), Says("Done.")))
    cards = ready(tab, 2)
    assert tab.run("() => document.activeElement.classList.contains('asking')"), "the field was empty"
    assert [kbd.is_visible() for kbd in cards.locator("button.primary kbd").all()] == [True, False]
    cards.nth(1).focus()
    assert [kbd.is_visible() for kbd in cards.locator("button.primary kbd").all()] == [False, True]
    tab.page.keyboard.press("Alt+y")
    until(lambda: tab.file("two.txt"))
    assert tab.file("one.txt") is None
    assert tab.run("() => document.activeElement === document.querySelector('.call.asking')"), "the next one has it"
    tab.page.keyboard.press("Alt+n")
    tab.page.get_by_role("textbox", name="What should the agent do").wait_for()
    tab.page.keyboard.press("Enter")
    tab.ended()
    assert tab.file("one.txt") is None
    assert tab.run("() => document.activeElement.id") == "message", "and then the message field"


@pytest.mark.deep  # no call is decided by it: the tests of keys are beside it
def test_the_focus_stays_with_who_writes(tab: Tab, model: ScriptedModel) -> None:
    field = tab.page.get_by_role("textbox", name="Message")
    go = threading.Event()
    asked = Says("", calls=[call("write_file", path="a.txt", content="a\n")], until=go)
    tab.say(model.script("writes", asked, Says("Done.")))
    field.press_sequentially("y")
    go.set()
    ready(tab)
    tab.page.keyboard.type("es")
    assert field.input_value() == "yes"
    tab.page.keyboard.press("Alt+n")
    assert tab.page.get_by_role("textbox", name="What should the agent do").count() == 0, "on some keyboards, a letter"
    field.fill("")
    tab.page.locator(".call.asking").focus()
    tab.page.keyboard.type("no")
    assert field.input_value() == "no", "letters are a message, no decision"
    assert tab.file("a.txt") is None
    field.fill("")
    tab.page.keyboard.press("Alt+a")
    tab.page.get_by_role("button", name="In this session").wait_for()
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("button", name="Always allow…").wait_for()
    assert tab.page.locator(".call.asking").count() == 1, "the turn goes on"


def test_nothing_is_decided_by_a_key_while_it_is_off_the_screen(tab: Tab, model: ScriptedModel) -> None:
    text = "\n\n".join(f"Paragraph {number}." for number in range(80))
    tab.say(model.script("off-screen", Says(text, calls=[call("write_file", path="a.txt", content="a\n")]), Says("")))
    ready(tab)
    tab.run("() => document.querySelector('.scroller').dispatchEvent(new WheelEvent('wheel'))")
    tab.page.mouse.move(600, 300)
    tab.page.mouse.wheel(0, -3000)
    tab.page.wait_for_function("() => document.querySelector('.scroller').scrollTop < 100")
    tab.page.keyboard.press("Alt+y")
    tab.page.wait_for_function("() => document.querySelector('.scroller').scrollTop > 100")
    assert tab.page.locator(".call.asking").count() == 1
    assert tab.file("a.txt") is None
    tab.page.keyboard.press("Alt+y")
    until(lambda: tab.file("a.txt"))


NOTICES = """
window.notices = [];
window.Notification = class {
  static permission = 'granted';
  static requestPermission = async () => 'granted';
  constructor(title, options) { window.notices.push([title, options.body]); }
};
Object.defineProperty(document, 'hidden', { get: () => true });
"""


@pytest.mark.deep
def test_the_tab_says_that_a_decision_is_waited_for(open_tab: OpenTab, model: ScriptedModel) -> None:
    """And the browser, from when the user wants it on."""
    tab = open_tab()
    tab.page.add_init_script(NOTICES)
    tab.page.reload()
    tab.online()
    icon = "() => document.querySelector('link[rel=icon]').getAttribute('href')"
    for turns, wanted in enumerate((False, True), 1):
        if wanted:
            tab.press("Settings")
            tab.page.get_by_label("Notify me when the agent waits").check()
            tab.page.keyboard.press("Escape")
        assert tab.run(icon) == "/favicon.svg"
        asked = Says("", calls=[call("write_file", path="a.txt", content=f"{turns}\n")])
        tab.say(model.script(f"notice-{wanted}", asked, Says("Done.")))
        ready(tab)
        assert tab.page.title().startswith("(1 decision waits) ")
        assert tab.run("async (path) => (await fetch(path)).headers.get('content-type')", tab.run(icon)).startswith(
            "image/svg+xml"
        )
        assert tab.run(icon) == "/favicon-waiting.svg"
        said = [["The agent waits for your decision", "write_file a.txt"]] if wanted else []
        assert tab.run("() => window.notices") == said
        tab.press("Approve")
        tab.ended(turns)
        assert not tab.page.title().startswith("(")
        assert tab.run(icon) == "/favicon.svg"


#: Of a block's text, and of the block.
_BOTTOMS = ("(() => { const range = document.createRange(); range.selectNodeContents(it); return range; })()", "it")


@pytest.mark.deep  # the frames are functions/test_call_drafts.py's
def test_a_call_is_shown_while_it_is_written_and_then_asks(tab: Tab, model: ScriptedModel) -> None:
    goes_on = threading.Event()
    content = "".join(f"line {number}\n" for number in range(40)) + "\u202ehidden\n" * 40
    write = call("write_file", path="new.py", content=content)
    tab.say(model.script("writes", Says("", calls=[write], halfway=goes_on), Says("Done.")))
    card = tab.page.locator(".call.draft")
    card.get_by_text("new.py").wait_for()
    tab.page.locator(".status", has_text=re.compile(r"^Writing new\.py, \d+ lines")).wait_for()
    card.get_by_text("being written").wait_for()
    assert card.get_by_role("button").count() == 0
    text, box = (card.locator("pre").evaluate(f"(it) => {what}.getBoundingClientRect().bottom") for what in _BOTTOMS)
    assert text <= box, "its newest line is seen"
    assert violations(tab) == []
    goes_on.set()
    ready(tab)
    assert card.count() == 0
    tab.press("Approve")
    tab.ended()


def _differs(button: Any, before: str) -> bool:
    return bool(button.inner_text() != before)


@pytest.mark.deep  # a terminal does the same in client/test_terminal_keys.py
def test_several_changes_are_approved_together_once_all_were_on_the_screen(tab: Tab, model: ScriptedModel) -> None:
    long = "".join(f"row {number}\n" for number in range(60))
    calls = [
        call("write_file", path="one.txt", content="one\n"),
        call("write_file", path=".vscode/tasks.json", content="{}\n"),
        call("delete_file", path="main.py"),
        *(call("write_file", path=f"{name}.txt", content=long) for name in ("two", "three")),
    ]
    tab.page.set_viewport_size({"width": 360, "height": 640})
    tab.say(model.script("together", Says("", calls=calls), Says("Done.")))
    ready(tab, 5)
    bar = tab.page.locator(".together")
    assert bar.locator("p").inner_text() == "one.txt, two.txt, three.txt"
    look = bar.get_by_role("button", name="Look at")
    while look.count():
        before = look.inner_text()
        look.click()
        until(partial(_differs, bar.get_by_role("button"), before))
        assert tab.page.locator(".call.asking").count() == 5, "nothing is decided"
    assert violations(tab) == []
    assert tab.run("() => document.documentElement.scrollWidth <= innerWidth")
    bar.locator("[aria-disabled=false]").wait_for()
    bar.get_by_role("button", name="Approve these 3 changes").click()
    # They are approved at once, so any of them may be executed first.
    wanted = {"one.txt": "one\n", "two.txt": long, "three.txt": long}
    until(lambda: {name: tab.file(name) for name in wanted} == wanted)
    assert bar.count() == 0
    assert tab.page.locator(".call.asking .subject").all_inner_texts() == [".vscode/tasks.json", "main.py"]
    assert tab.run("() => document.activeElement.classList.contains('asking')"), "the next question has the focus"
    for _question in range(2):
        ready(tab).first.get_by_role("button", name="Reject").click()
        reason = tab.page.get_by_role("textbox", name="What should the agent do")
        reason.press("Enter")
        reason.wait_for(state="detached")
    tab.ended()
    assert tab.file(".vscode/tasks.json") is None


SEEN_LATE = """
window.IntersectionObserver = class {
  constructor(callback) {
    this.change = new MutationObserver(() => window.isLate && callback([{ isIntersecting: true }], this));
  }
  observe() { this.change.observe(document.body, { subtree: true, childList: true }); }
  unobserve() {}
  disconnect() { this.change.disconnect(); }
};
"""


@pytest.mark.deep
def test_a_card_seen_in_the_moment_of_its_decision_harms_nothing(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab()
    tab.page.add_init_script(SEEN_LATE)
    tab.page.reload()
    tab.online()
    calls = [call("write_file", path=f"{name}.txt", content="new\n") for name in ("one", "two")]
    tab.say(model.script("late", Says("", calls=calls), Says("Done.")))
    card = ready(tab, 2).first
    tab.run("() => { window.isLate = true; }")
    card.get_by_role("button", name="Reject").click()
    tab.page.get_by_role("textbox", name="What should the agent do").press("Enter")
    ready(tab).first.get_by_role("button", name="Approve").click()
    tab.ended()
    assert (tab.file("one.txt"), tab.file("two.txt")) == (None, "new\n")
