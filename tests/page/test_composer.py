"""What a user writes: with the keyboard, with files, and once more in another way."""

import threading

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_conversation import SLOW_FILES
from tests.page.test_looks import violations
from tests.waiting import until


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
    chooser = tab.page.locator(".composer input[type=file]")
    chooser.set_input_files({"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"\0\xff\0"})
    tab.page.get_by_text("a.bin is neither an image nor a text, or too long").wait_for()
    chooser.set_input_files({"name": "n\u202eotes.txt", "mimeType": "text/plain", "buffer": b"buy milk"})
    tab.page.locator(".composer .badge", has_text="n⟨U+202E⟩otes.txt").wait_for()
    assert violations(tab) == []
    tab.say(model.script("attached", Says("Read.")))
    tab.ended()
    assert "buy milk" in str(model.requests["attached"][0])
    assert tab.page.locator(".composer .badge").count() == 0


def test_an_earlier_message_is_rewritten_in_a_branch(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("kept", Says("Kept.")))
    tab.ended()
    tab.say(model.script("old", Says("Old.")))
    tab.ended(2)
    tab.say(model.script("later", Says("Later.")))
    tab.ended(3)
    before = tab.page.url
    tab.page.locator(".said").nth(1).get_by_role("button").click()
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


def test_the_status_says_what_is_done_and_the_first_screen_who_answers(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab("")
    tab.page.add_init_script(SLOW_FILES)
    tab.page.reload()
    tab.online()
    tab.page.get_by_text("The model scripted answers.").wait_for()
    assert tab.page.locator(".welcome li button").count() == 3
    tab.say(model.script("status", Says("", calls=[call("read_file", path="README.md")]), Says("Done.")))
    status = tab.page.locator(".status", has_text="Reading README.md")
    status.get_by_text(", 2 s").wait_for()
    assert violations(tab) == []
    tab.run("window.letOpen()")
    tab.ended()
    assert tab.page.locator(".status").inner_text() == ""
