"""What a person approves in the page is what happens: nothing of it is cut, collapsed or unseen."""

import sys

import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.tab import Tab
from tests.security.test_display import HOOK, batches, corpus
from tests.waiting import until


def ask(tab: Tab, model: ScriptedModel, name: str, path: str, content: str) -> None:
    tab.say(model.script(name, Says("", calls=[call("write_file", path=path, content=content)]), Says("Done.")))
    tab.page.locator(".call.asking .diff").wait_for()


def test_a_path_is_neither_cut_nor_collapsed(tab: Tab, model: ScriptedModel) -> None:
    path = f"{'a/' * 50}x{' ' * 100}{HOOK}"
    tab.page.set_viewport_size({"width": 500, "height": 800})
    ask(tab, model, "long-path", path, "x\n")
    for place in (".call.asking .subject", ".call.asking figcaption bdi"):
        shown = tab.run(
            """(place) => {
              const found = document.querySelector(place);
              const { left, right } = found.getBoundingClientRect();
              return { text: found.textContent, blanks: getComputedStyle(found).whiteSpaceCollapse,
                isCut: found.scrollWidth > found.clientWidth && getComputedStyle(found).overflow !== 'visible',
                isOutside: left < 0 || right > innerWidth };
            }""",
            place,
        )
        assert shown == {"text": path, "blanks": "break-spaces", "isCut": False, "isOutside": False}


def test_no_character_is_unseen_in_a_card_or_a_review(tab: Tab, model: ScriptedModel) -> None:
    characters = [one for one in corpus() if not "\ud800" <= one <= "\udfff" and one != "\0"]
    content = "".join("".join(f"x{one}y" for one in some) + "\n" for some in batches(characters, 100))
    ask(tab, model, "corpus", "main.py", content)
    card = tab.run("() => document.querySelector('.call.asking').textContent")
    tab.press("Review the changes")
    tab.page.locator(".cm-content").first.wait_for()
    review = tab.run(
        "() => [...document.querySelectorAll('.merge .host')].map((it) => it.shadowRoot.textContent).join('')"
    )
    unseen = [one for one in characters if one in card or one in review]
    sys.stdout.write(f"{len(characters)} characters, {len(unseen)} unseen in the page's card and review\n")
    assert unseen == []
    assert "⟨U+3164⟩" in card
    assert "⟨U+0001⟩" in review


@pytest.mark.deep
def test_a_review_keeps_what_only_looks_like_a_line_end(tab: Tab, model: ScriptedModel) -> None:
    content = "a\rb\nc\u2028d\r\nlast\n"
    ask(tab, model, "separators", "main.py", content)
    tab.press("Review the changes")
    tab.page.locator(".cm-content").first.click()
    tab.page.keyboard.press("Control+End")
    tab.page.keyboard.type("more")
    tab.press("Accept all")
    tab.press("Apply the reviewed text")
    tab.ended()
    assert tab.file("main.py") == f"{content}more"


@pytest.mark.deep
def test_a_change_of_line_ends_is_told(tab: Tab, model: ScriptedModel) -> None:
    before = until(lambda: tab.file("main.py"))  # the page may still be writing the sample project
    assert before is not None
    ask(tab, model, "line-ends", "main.py", before.replace("\n", "\r\n"))
    assert "Line ends change: LF → CRLF" in tab.page.locator(".call.asking").inner_text()
    tab.press("Review the changes")
    tab.page.get_by_role("dialog").get_by_text("Line ends change: LF → CRLF").wait_for()
