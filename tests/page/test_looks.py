"""The page for everybody: assistive technology, small and large windows, both themes, both languages."""

from pathlib import Path
from typing import Any

import pytest

from infra import page as page_build
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.scripted_model import Says, ScriptedModel, call

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


def test_axe_finds_nothing(tab: Tab, model: ScriptedModel) -> None:
    assert violations(tab) == []
    ask(tab, model, "axe")
    assert violations(tab) == []
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
    tab.press("Settings")
    assert violations(tab) == []


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
    """From the top of the page to the message field, and to an approval."""
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Enter")
    asked = Says("I write.", calls=[call("write_file", path="keys.txt", content="keys\n")])
    tab.page.keyboard.type(model.script("keys", asked, Says("Done.")))
    tab.page.keyboard.press("Enter")
    tab.page.locator(".call.asking .diff").wait_for()
    tab.page.locator(".call.asking button.primary[aria-disabled=false]").wait_for()
    for _ in range(30):
        tab.page.keyboard.press("Shift+Tab")
        if tab.run("() => document.activeElement.textContent") == "Approve":
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
