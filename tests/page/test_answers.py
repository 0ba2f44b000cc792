"""What an answer looks like: code in colours, formulas, and text that can be copied."""

import pytest

from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations

CODE = 'def greet(name: str) -> str:\n    # politely\n    return f"Hello, {name}" * 2'
ANSWER = f"""Here it is:

```python
{CODE}
```

```mermaid
graph TD; A[Start] --> B
```

The area is $\\pi r^2$, which costs $5 and not $6.

$$
\\frac{{a}}{{b}} = \\fcolorbox{{red}}{{blue}}{{$\\pmb{{x}}$}}
$$

$$
\\notTeX{{
$$
"""


@pytest.mark.deep  # looks
def test_code_has_its_colours_and_moves_nothing(tab: Tab, model: ScriptedModel) -> None:
    tab.run("""() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.shift += entry.value;
      }).observe({ type: 'layout-shift', buffered: true });
      window.heights = new Set();
      window.widths = new Set();
      const look = () => {
        const text = document.querySelector('.answer .markdown');
        if (text) window.widths.add(text.getBoundingClientRect().width);
        const code = document.querySelector('.answer:not(.writing) .code');
        if (code) window.heights.add(code.getBoundingClientRect().height);
        requestAnimationFrame(look);
      };
      look();
    }""")
    loaded = "() => performance.getEntriesByType('resource').filter((it) => it.name.includes('highlight')).length"
    assert tab.run(loaded) == 0, "loaded when there is a code, not before"
    tab.say(model.script("colours", Says(ANSWER)))
    tab.ended()
    code = tab.page.locator(".answer .code").first
    for kind, text in (("keyword", "def"), ("comment", "# politely"), ("number", "2"), ("name", "greet")):
        code.locator(f".of-{kind}", has_text=text).first.wait_for()
    assert code.locator("code").inner_text() == CODE
    plain, keyword = tab.run("""() => ['.answer .code code', '.answer .of-keyword']
      .map((it) => getComputedStyle(document.querySelector(it)).color)""")
    assert plain != keyword
    assert tab.run("() => window.heights.size") == 1, "colours change no size"
    assert tab.run("() => window.widths.size") == 1, "nor does the end of the answer"
    assert violations(tab) == []


@pytest.mark.deep  # `test/answers.test.ts` has the rules
def test_formulas_are_drawn_and_what_is_none_stays_as_it_was_written(tab: Tab, model: ScriptedModel) -> None:
    """Under the page's policy, which `errors` of every tab is about: no style of a library is allowed."""
    tab.say(model.script("formulas", Says(ANSWER)))
    tab.ended()
    tab.page.locator(".answer math[display=block] mfrac").wait_for()
    inline = tab.page.locator(".answer p", has_text="The area is")
    inline.locator("math").wait_for()
    assert "costs $5 and not $6" in inline.inner_text()
    assert tab.page.locator(".answer code.math").inner_text() == "\\notTeX{"
    assert tab.page.locator(".answer .code", has_text="mermaid").locator("code").inner_text() == (
        "graph TD; A[Start] --> B"
    )
    styled = "() => [...document.querySelectorAll('.answer *')].filter((it) => it.hasAttribute('style')).length"
    assert tab.run(styled) == 0
    assert violations(tab) == []


@pytest.mark.deep
def test_an_answer_is_copied_as_markdown(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"]).online()
    tab.say(model.script("copied", Says(ANSWER)))
    tab.ended()
    tab.press("Copy the answer")
    tab.page.get_by_role("button", name="Copied").wait_for()
    assert tab.run("() => navigator.clipboard.readText()") == ANSWER
    tab.page.locator(".answer .code").first.get_by_role("button", name="Copy").click()
    tab.page.locator(".answer .code").first.get_by_role("button", name="Copied").wait_for()
    assert tab.run("() => navigator.clipboard.readText()") == CODE


def test_hostile_code_and_formulas_do_nothing(tab: Tab, model: ScriptedModel) -> None:
    texts = [
        "```__proto__\n<img src=x onerror='window.owned=1'>\n```",
        "```html\n<script>window.owned=2</script><style>@import 'https://evil.test/x.css'</style>\n```",
        '```"><img/src=x/onerror=window.owned=3>.py\ndef f(): pass\n```',
        "$\\href{javascript:window.owned=4}{x}$ $\\includegraphics{https://evil.test/x.png}$",
        "$\\htmlStyle{color:red}{x}$ $\\def\\a{\\a\\a}\\a$ $\\rule{1000000em}{1000000em}$",
        "$</math><img src=x onerror=window.owned=5>$",
        "$\\gdef\\sin{evil}$ $\\sin$",
    ]
    tab.say(model.script("hostile-code", Says("\n\n".join(texts) + "\n\nThe end.")))
    tab.ended()
    tab.page.locator(".answer .of-keyword").first.wait_for()
    tab.page.locator(".answer math").first.wait_for()
    found = tab.run("""() => ({
      owned: window.owned,
      elements: [...document.querySelectorAll('.answer *')].map((element) => element.localName),
      names: [...document.querySelectorAll('.answer *')].flatMap((element) => element.getAttributeNames()),
      wide: document.documentElement.scrollWidth - innerWidth,
    })""")
    assert found["owned"] is None
    assert not {"script", "img", "style", "mglyph", "iframe"} & {*found["elements"]}
    assert not {name for name in found["names"] if name.startswith("on") or name in ("style", "src")}
    assert found["wide"] <= 0
    assert "evil" not in tab.page.locator(".answer math").last.text_content()
