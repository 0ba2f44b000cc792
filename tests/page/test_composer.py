"""What a user writes: with the keyboard, with files, and once more in another way."""

import re
import threading
from typing import Any

import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_cards import ready
from tests.page.test_conversation import SLOW_FILES
from tests.page.test_looks import violations
from tests.waiting import until


@pytest.mark.deep
def test_earlier_messages_are_recalled_and_escape_stops(tab: Tab, model: ScriptedModel) -> None:
    field = tab.page.get_by_role("textbox", name="Message")
    go = threading.Event()
    first, second = model.script("first", Says("One.")), model.script("second", Says("Two.", until=go))
    tab.page.keyboard.type(first)  # the field has the focus
    tab.page.keyboard.press("Enter")
    tab.ended()
    tab.say(second)
    tab.page.locator(".status.thinking").wait_for()
    tab.page.keyboard.press("Escape")
    tab.ended(2)
    go.set()
    assert "Stopped" in tab.page.locator(".note.end").nth(1).inner_text()
    for key, text in (
        ("ArrowUp", second),
        ("ArrowUp", first),
        ("ArrowUp", first),
        ("ArrowDown", second),
        ("ArrowDown", ""),
    ):
        tab.page.keyboard.press(key)
        until(lambda text=text: field.input_value() == text)  # type: ignore[misc]
    tab.page.keyboard.type("mine")
    tab.page.keyboard.press("ArrowUp")
    assert field.input_value() == "mine", "what was written is not lost"


def test_files_are_attached_with_a_button(tab: Tab, model: ScriptedModel) -> None:
    with tab.page.expect_file_chooser() as opened:
        tab.press("Attach images or texts")
    chooser = opened.value
    chooser.set_files({"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"\0\xff\0"})
    tab.page.get_by_text("a.bin is neither an image nor a text, or too long").wait_for()
    chooser.set_files({"name": "n\u202eotes.txt", "mimeType": "text/plain", "buffer": b"buy milk"})
    tab.page.locator(".composer .badge", has_text="n⟨U+202E⟩otes.txt").wait_for()
    assert violations(tab) == []
    tab.say(model.script("attached", Says("Read.")))
    tab.ended()
    assert "buy milk" in str(model.requests["attached"][0])
    assert tab.page.locator(".composer .badge").count() == 0


@pytest.mark.deep  # the next test branches too
def test_an_earlier_message_is_rewritten_in_a_branch(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("kept", Says("Kept.")))
    tab.ended()
    tab.say(model.script("old", Says("Old.")))
    tab.ended(2)
    tab.say(model.script("later", Says("Later.")))
    tab.ended(3)
    before = tab.page.url
    rewrite = tab.page.locator(".said").nth(1).get_by_role("button")
    place, message = rewrite.bounding_box(), tab.page.locator(".said").nth(1).bounding_box()
    assert place
    assert message
    assert place["height"] < 30, "in one line,"
    assert place["x"] + place["width"] < message["x"], "beside the message"
    rewrite.click()
    field = tab.page.get_by_role("textbox", name="Message")
    assert field.input_value() == "[[old]]"
    tab.page.get_by_text("You rewrite an earlier message").wait_for()
    assert violations(tab) == []
    field.fill(model.script("new", Says("New.")))
    tab.page.keyboard.press("Enter")
    tab.page.locator(".answer", has_text="New.").wait_for()
    tab.page.locator(".note.end").last.wait_for()
    assert tab.answers == ["Kept.", "New."]
    assert tab.page.url != before
    assert "[[old]]" not in str(model.requests["new"])
    tab.page.go_back()
    tab.page.locator(".answer", has_text="Later.").wait_for()
    assert tab.answers == ["Kept.", "Old.", "Later."]


@pytest.mark.deep  # client/test_rewind.py goes back too
def test_files_go_back_with_the_message_that_is_rewritten_if_the_user_wants_it(tab: Tab, model: ScriptedModel) -> None:
    before = until(lambda: tab.file("main.py"))
    steps = [Says("", calls=[call("write_file", path=path, content="1\n")]) for path in ("main.py", "mine.py")]
    tab.say(model.script("changes", *steps, Says("Once.")))
    for place in range(len(steps)):
        ready(tab)
        tab.press("Approve")
        tab.page.locator(".call.completed").nth(place).wait_for()
    tab.ended()
    again = call("edit_file", path="main.py", edits=[{"old": "1", "new": "2"}])
    tab.say(model.script("changes-again", Says("", calls=[again]), Says("Twice.")))
    ready(tab)
    tab.press("Approve")
    tab.ended(2)
    tab.save("mine.py", "# of the user\n")
    tab.page.locator(".said").first.get_by_role("button").click()
    tab.page.get_by_label("Also undo what this page has changed since: main.py, mine.py").check()
    assert violations(tab) == []
    tab.page.get_by_role("textbox", name="Message").fill(model.script("instead", Says("Instead.")))
    tab.page.keyboard.press("Enter")
    tab.page.locator(".answer", has_text="Instead.").wait_for()
    tab.page.get_by_text("Left as they are, because they were changed since: mine.py").wait_for()
    assert (tab.file("main.py"), tab.file("mine.py")) == (before, "# of the user\n")


@pytest.mark.deep  # the test before branches too
def test_an_answer_is_given_again_in_a_branch(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("again", Says("First.")))
    tab.ended()
    before = tab.page.url
    model.script("again", Says("Second."))
    tab.press("Answer again")
    tab.page.locator(".answer", has_text="Second.").wait_for()
    assert tab.answers == ["Second."]
    tab.page.go_back()
    tab.page.locator(".answer", has_text="First.").wait_for()
    assert tab.page.url == before


def demonstrates(socket: Any) -> None:
    """Has the page believe that the demonstration model answers."""
    server = socket.connect_to_server()
    server.on_message(lambda message: socket.send(message.replace('"model":"scripted"', '"model":"demonstration"')))
    socket.on_message(lambda message: server.send(message))


@pytest.mark.deep
def test_the_status_says_what_is_done_and_the_first_screen_who_answers(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab("")
    tab.page.add_init_script(SLOW_FILES)
    tab.page.reload()
    tab.online()
    tab.page.get_by_text("The model scripted answers.").wait_for()
    tab.page.get_by_text("No folder is open").wait_for()
    assert tab.page.locator(".welcome li button").count() == 3
    tab.page.set_viewport_size({"width": 640, "height": 400})
    top = "() => document.querySelector('.welcome h2').getBoundingClientRect().top"
    tab.page.wait_for_function("() => document.querySelector('.scroller').clientHeight < 300")
    assert tab.run(top) > tab.run("() => document.querySelector('.top').clientHeight"), "it is read from its top"
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.say(model.script("status", Says("", calls=[call("read_file", path="README.md")]), Says("Done.")))
    status = tab.page.locator(".status", has_text="Reading README.md")
    status.get_by_text(re.compile(r", \d+ s")).wait_for()
    assert violations(tab) == []
    tab.run("window.letOpen()")
    tab.ended()
    assert tab.page.locator(".status").inner_text() == ""
    tab.page.route_web_socket("**/ws/**", demonstrates)
    tab.page.goto(f"{tab.origin}/")
    tab.page.get_by_text("Demonstration, scripted.").wait_for()
    assert tab.page.locator(".welcome code").count() == 3, "ways to connect a model"
    tab.run("window.letOpen()")
    tab.page.get_by_text("Folder: sample").wait_for()
    assert violations(tab) == []
    tab.press("Open another")
    tab.page.get_by_role("navigation", name="Files of sample").wait_for()
    tab.press("Make a plan")
    tab.ended()
    assert tab.page.locator(".said .words").inner_text().strip() == "Make a plan"


@pytest.mark.deep  # `test/suggestions.test.ts` has the rules
def test_files_and_commands_are_suggested_while_they_are_written(tab: Tab, model: ScriptedModel) -> None:
    field, options = tab.page.get_by_role("textbox", name="Message"), tab.page.locator(".menu").get_by_role("option")

    def written() -> list[str]:
        return [str(text).split("\n")[0] for text in options.all_inner_texts()]

    until(lambda: tab.file("greeter/text.py"))
    field.press_sequentially(f"{model.script('mentions', Says('Read.'))} @gtext")
    options.get_by_text("text.py").wait_for()
    tab.page.set_viewport_size({"width": 360, "height": 640})
    assert violations(tab) == []
    assert tab.run("() => document.documentElement.scrollWidth <= innerWidth")
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.page.keyboard.press("Escape")
    options.first.wait_for(state="detached")
    assert field.input_value().endswith("@gtext"), "Escape closes the menu, and no more"
    for _ in "@gtext":
        tab.page.keyboard.press("Backspace")
    tab.page.keyboard.type("@")
    options.nth(1).wait_for()
    second = options.nth(1).inner_text().split("\n")[0]
    tab.page.keyboard.press("ArrowDown")
    chosen = field.get_attribute("aria-activedescendant")
    assert tab.page.locator(f"[id='{chosen}'][aria-selected=true]").inner_text().split("\n")[0] == second
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.type("please")
    assert field.input_value().endswith(f"{second} please")
    tab.page.keyboard.press("Enter")
    tab.ended()
    assert f"{second} please" in str(model.requests["mentions"][0])

    field.press_sequentially("/")
    names = ["new", "compact", "model", "agent", "mode", "thinking", "attach", "files", "inspector", "remember"]
    names += ["notes", "settings"]
    until(lambda: written() == [f"/{name}" for name in names])
    tab.page.keyboard.type("mod")
    tab.page.keyboard.press("Enter")
    until(lambda: written() == ["/model other"])
    assert violations(tab) == []
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("Model: other").wait_for()
    assert field.input_value() == ""
    field.press_sequentially("/mode plan")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("Mode: plan").wait_for()
    field.press_sequentially("/compact")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("The conversation is too short to be worth a summary.").wait_for()
    field.press_sequentially("/settings")
    options.click()
    tab.page.get_by_role("dialog").get_by_label("Model").wait_for()
    tab.page.keyboard.press("Escape")
    go = threading.Event()
    tab.say(model.script("stopped", Says("Never said.", until=go)))
    tab.page.locator(".status.thinking").wait_for()
    field.press_sequentially("/stop")
    tab.page.keyboard.press("Enter")
    tab.ended(2)
    go.set()
    assert "Stopped" in tab.page.locator(".note.end").nth(1).inner_text()
    field.press_sequentially("/sto")
    assert written() == [], "there is nothing to stop any more"
    field.fill("")
    agent = tab.page.get_by_label("Agent", exact=True)
    before = agent.input_value()
    agent.evaluate("(it) => { it.add(new Option('no-such', 'no-such')); }")
    agent.select_option("no-such")
    tab.page.locator(".failure", has_text="no-such").wait_for()
    assert agent.input_value() == before
    field.press_sequentially("/new")
    tab.page.keyboard.press("Enter")
    tab.page.locator(".welcome").wait_for()
