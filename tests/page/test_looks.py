"""The page for everybody: assistive technology, small and large windows, both themes, both languages."""

from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from infra import page as page_build
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab

AXE = page_build.WEB / "node_modules" / "axe-core" / "axe.min.js"


def violations(tab: Tab) -> list[str]:
    """What axe finds, with the elements. It comes over the debugger, past the page's policy."""
    if not tab.run("() => 'axe' in window"):
        tab.page.context.new_cdp_session(tab.page).send(
            "Runtime.evaluate", {"expression": Path(AXE).read_text("utf-8")}
        )
    found: dict[str, Any] = tab.run("() => axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {node['html'][:150]}" for one in found["violations"] for node in one["nodes"]]


def ask(tab: Tab, model: ScriptedModel, name: str) -> None:
    """A conversation with everything in it, which waits for a decision."""
    text = (
        "# A title\n\nSome *words*, [a link](https://example.com/) and `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    )
    plan = [{"text": "Look", "status": "completed"}, {"text": "Write", "status": "in_progress"}]
    looked = Says(f"{text}```python\nprint(1)\n```", calls=[call("read_file", path="main.py")])
    planned = Says("A plan.", calls=[call("update_plan", items=plan)])
    write = Says("I write.", calls=[call("write_file", path="main.py", content="print('short')\n")])
    tab.say(model.script(name, looked, planned, write, Says("Done.")))
    tab.page.locator(".call.asking .diff").wait_for()


@pytest.mark.deep  # test_cards.py asks axe about cards
def test_axe_finds_nothing(tab: Tab, model: ScriptedModel) -> None:
    assert violations(tab) == []
    ask(tab, model, "axe")
    assert violations(tab) == []
    height = "() => document.querySelector('.call.completed').getBoundingClientRect().height"
    assert tab.run(height) < 48, "a call that nobody was asked about takes one line"
    tab.page.set_viewport_size({"width": 640, "height": 400})  # as at a zoom of 200 %
    assert violations(tab) == []
    assert tab.run("() => document.querySelector('.scroller').clientHeight") >= 160
    assert tab.run("() => document.querySelector('.asking .lines').getBoundingClientRect().height") <= 180
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.page.emulate_media(forced_colors="active")
    grounds = """() => Object.fromEntries(Object.entries({
      dot: '.link.online', page: 'body', primary: '.asking button.primary', button: '.asking button:not(.primary)',
    }).map(([name, selector]) => [name, getComputedStyle(document.querySelector(selector)).backgroundColor]))"""
    ground = tab.run(grounds)
    assert ground["dot"] != ground["page"], "the connection's state is seen"
    assert ground["primary"] != ground["button"]
    assert tab.run("() => getComputedStyle(document.querySelector('.said')).borderTopWidth") == "1px"
    tab.page.emulate_media(forced_colors="none")
    tab.press("Review the changes")
    tab.page.locator("[name=accept]").first.wait_for()
    assert violations(tab) == []
    tab.page.keyboard.press("Escape")
    tab.press("Files")
    tab.press("main.py")
    tab.page.locator(".cm-content").first.wait_for()
    assert violations(tab) == []
    tab.press("Inspector")
    tab.page.locator(".row").first.wait_for()
    assert violations(tab) == []
    tab.page.set_viewport_size({"width": 360, "height": 760})
    assert tab.run("() => document.querySelector('.tabs input').getBoundingClientRect().width") > 120
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.press("Settings")
    assert violations(tab) == []
    widths = "() => [...document.querySelectorAll('dialog select')].map((it) => it.getBoundingClientRect().width)"
    assert len(set(tab.run(widths))) == 1


@pytest.mark.deep
@pytest.mark.parametrize("language", ["English", "Русский"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_any_theme_and_width(
    open_tab: OpenTab, model: ScriptedModel, theme: str, language: str
) -> None:
    tab = open_tab(color_scheme=theme).online()
    ask(tab, model, f"axe-{theme}-{language}")
    tab.press("Settings")
    tab.page.get_by_label("Language").select_option(label=language)
    tab.page.keyboard.press("Escape")
    for width in (360, 1000, 2560):
        tab.page.set_viewport_size({"width": width, "height": 800})
        assert violations(tab) == []
        wide = tab.run("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, "nothing is wider than the window"


@pytest.mark.deep
def test_the_keyboard_alone_is_enough(tab: Tab, model: ScriptedModel) -> None:
    """To the message field, which has the focus at first, and to an approval."""
    field = "() => document.activeElement.id === 'message'"
    assert tab.run(field)
    tab.page.locator(".skip").focus()
    assert not tab.run(field)
    tab.page.keyboard.press("Enter")
    assert tab.run(field)
    asked = Says("I write.", calls=[call("write_file", path="keys.txt", content="keys\n")])
    tab.page.keyboard.type(model.script("keys", asked, Says("Done.")))
    tab.page.keyboard.press("Enter")
    tab.page.locator(".call.asking .diff").wait_for()
    tab.page.locator(".call.asking button.primary[aria-disabled=false]").wait_for()
    for _ in range(10):  # the card has the focus
        tab.page.keyboard.press("Tab")
        if tab.run("() => document.activeElement.textContent").startswith("Approve"):
            break
    tab.page.keyboard.press("Enter")
    tab.ended()
    assert tab.file("keys.txt") == "keys\n"


@pytest.mark.deep
def test_nothing_moves_while_text_streams(tab: Tab, model: ScriptedModel) -> None:
    tab.run("""() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
      }).observe({ type: 'layout-shift', buffered: true });
    }""")
    text = "\n\n".join(f"Paragraph {n} has some words in it, and **some** of them are bold." for n in range(60))
    tab.say(model.script("calm", Says(text, piece=20, delay=0.005)))
    tab.ended()
    assert tab.run("() => window.shift") < 0.05


@pytest.mark.deep  # looks
def test_long_titles_leave_the_panel_as_wide_as_it_is(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("titled", Says("Yes.")))
    tab.ended()
    for title in ("A title of many words that says all that is to be done here, and why " * 2, "x" * 200):
        change = {"url": f"{tab.origin}/api/v1/sessions/{tab.session}", "title": title}
        assert tab.run(
            """async ({url, title}) => (await fetch(url, {
              method: 'PATCH', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({title}),
            })).ok""",
            change,
        )
        tab.page.reload()
        tab.online().press("Sessions")
        tab.page.locator(".sessions .one span", has_text=title[:20]).first.wait_for()
        beyond = tab.run(
            """() => {
              const {right} = document.querySelector('.sessions').parentElement.getBoundingClientRect();
              return [...document.querySelectorAll('.sessions *')]
                .filter((it) => it.getBoundingClientRect().right > right + 0.5).map((it) => it.className);
            }"""
        )
        assert beyond == []
        assert tab.page.locator("h1").inner_text() == title.strip(), (
            "and no title that a turn had before it was renamed"
        )
    tab.page.set_viewport_size({"width": 360, "height": 760})
    boxes = tab.run("""() => [...document.querySelectorAll('.top > *')].filter((it) => it.checkVisibility())
      .map((it) => it.getBoundingClientRect()).flatMap(({left, right}) => [left, right])""")
    assert len(boxes) >= 10, "the mark, the title, the dot, the agent and the settings at least"
    assert boxes == sorted(boxes), "nothing lies on another"
    assert 0 <= boxes[0] <= boxes[-1] <= 360
    assert tab.run("() => document.querySelector('h1').getBoundingClientRect().width") >= 80


ANSWER = """
Some `inline_code()`.

| Parameter | What it does | Default | configuration_key |
|:-:|---|--:|---|
| `max_context_tokens_of_the_session` | The number of tokens, which is counted | 128000 | `session.context.maximum` |
| timeout | Seconds that a tool may take before it is stopped | 120 | `tools.timeout.seconds` |

- [x] done

```python
line = "a line that is too long for its block: it is neither wrapped nor cut, but it scrolls with the keyboard too"
```

```diff
--- a/f
+++ b/f
@@ -1,2 +1,2 @@
-old
+new
 same
```
"""


@pytest.mark.deep  # looks
def test_answers_are_easy_to_read(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("answer", Says(ANSWER)))
    tab.ended()
    for width in (360, 1200):
        tab.page.set_viewport_size({"width": width, "height": 900})
        is_easy_to_read(tab)


def is_easy_to_read(tab: Tab) -> None:
    sizes = tab.run("() => [...document.querySelectorAll('.answer code')].map((it) => getComputedStyle(it).fontSize)")
    assert {float(size.removesuffix("px")) >= 13 for size in sizes} == {True}, sizes
    broken = """() => [...document.querySelectorAll('.answer td, .answer th')].flatMap((cell) => {
      const words = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      const range = document.createRange();
      const found = [];
      while (words.nextNode()) {
        for (const match of words.currentNode.data.matchAll(/\\S+/g)) {
          range.setStart(words.currentNode, match.index);
          range.setEnd(words.currentNode, match.index + match[0].length);
          if (range.getClientRects().length > 1) found.push(match[0]);
        }
      }
      return found;
    })"""
    assert tab.run(broken) == []
    long = "(() => document.querySelector('.code pre'))()"
    assert tab.run(f"() => {long}.scrollWidth > {long}.clientWidth"), "a long line scrolls in its block"
    wide = "(selector) => { const it = document.querySelector(selector); return it.scrollWidth > it.clientWidth; }"
    assert tab.run(wide, ".answer .scroll"), "the table scrolls,"
    assert not tab.run(wide, ".scroller"), "not the conversation,"
    assert not tab.run(wide, "html"), "nor the page"
    assert tab.run("() => [...document.querySelectorAll('.answer td')].map((it) => getComputedStyle(it).textAlign)")[
        :3
    ] == ["center", "start", "end"]
    sentence = "() => document.querySelector('.answer td.sentence').getBoundingClientRect().width"
    assert tab.run(sentence) >= 160, "beside a long name"
    assert tab.page.locator(".answer .task").inner_text().strip() == "☑ done"
    assert [tab.page.locator(f".answer .{kind}").all_inner_texts() for kind in ("removed", "added")] == [
        ["-old\n"],
        ["+new\n"],
    ]
    grounds = """() => ['.answer .removed', '.answer .added', '.answer .code code']
      .map((it) => getComputedStyle(document.querySelector(it)).backgroundColor)"""
    assert len(set(tab.run(grounds))) == 3


@pytest.mark.deep  # looks
def test_a_long_conversation_opens_at_its_end_and_stays_where_it_is_scrolled_to(
    open_tab: OpenTab, cloud: LocalCloud, model: ScriptedModel
) -> None:
    paragraphs = "\n\n".join(
        f"Paragraph {number} with `code` and **words** for a line or two. " * 3 for number in range(6)
    )
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 6
    with Ide(cloud.url("long_talk")) as ide:
        for number in range(25):
            ide.say(model.script(f"exchange_{number}", Says(f"{paragraphs}\n\n{table}\n\nThe end of {number}.")))
            ide.idle()
    tab = open_tab("long_talk").online()
    tab.page.get_by_text("The end of 24.").wait_for()
    distance = """() => {
      const it = document.querySelector('.scroller');
      return Math.round(it.scrollHeight - it.scrollTop - it.clientHeight);
    }"""
    settled = """() => new Promise((resolve) => setTimeout(resolve, 700))"""
    tab.run(settled)
    assert tab.run(distance) < 2
    tab.page.mouse.move(600, 300)
    tab.page.mouse.wheel(0, -900)
    tab.run(settled)
    up = tab.run(distance)
    assert up > 500, "a user who looks at what was said before"
    with Ide(cloud.url("long_talk")) as ide:
        ide.say(model.script("later", Says(paragraphs)))
        ide.idle()
    tab.page.get_by_text("Paragraph 5").nth(25).wait_for(state="attached")
    tab.run(settled)
    assert tab.run("() => document.querySelector('.scroller').scrollTop") > 0
    assert tab.run(distance) > up, "is not taken to the end by what is said now"
    tab.press("To the end")
    tab.run(settled)
    assert tab.run(distance) < 2
