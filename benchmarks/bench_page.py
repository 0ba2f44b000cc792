"""What the page costs the browser: until it is ready, and per frame while an answer streams; by Chromium's own trace.

The handling of a frame is the task on the page's main thread in which the browser hands it over, with everything that
this task runs: parsing, the session, Markdown, the document. A picture is a task that draws. Aims: ready within a
second, 8 ms for 95 of 100 frames at 200 tokens a second, and no stall with 10,000 frames.

Needs Chromium, and what `make test` installs for the tests of the page.
"""

import json
import statistics
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from codelab_local import LocalCloud
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.rig import ROOT
from infra import page as page_build
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.security.chromium import find

STARTS, TOKENS, RATE, MANY = 9, 3_000, 200, 10_000
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline"]
_PATIENCE_MS = 300_000
_DRAWS = {"FireAnimationFrame", "UpdateLayoutTree", "Layout", "PrePaint", "Paint", "Layerize", "Commit"}

#: When the page can be typed into and is connected, by its own clock.
_READY = """window.readyAt = new Promise((done) => new MutationObserver((_, watch) => {
  if (!document.querySelector('.link.online') || !document.querySelector('textarea')) return;
  done(performance.now());
  watch.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true }));"""

#: An answer like a model's: headings, lists, code, tables. About 250 tokens of four characters.
_PROSE = """## How it works, part {n}

The session keeps **one** connection. If it breaks, the client [resumes](https://example.com/) from the last `seq` it
has seen, so *nothing* is lost. There are three cases to consider, and each of them needs its own answer:

1. The frame was not sent: it is in the outbox, and is sent again.
2. The frame was sent twice: its `seq` tells, and the second is dropped.
   - That also holds for calls, by their `call_id`.
3. The frame came early: the gap is filled first.

```python
def resume(session: Session, last_seq: int) -> Iterator[Frame]:
    \"\"\"The frames after `last_seq`, in order.\"\"\"
    for frame in session.log.after(last_seq):
        if frame.seq != last_seq + 1:
            raise Gap(f"expected {{last_seq + 1}}, got {{frame.seq}}")
        last_seq = frame.seq
        yield frame
```

| case | how it is found | what happens |
|---|---|---|
| lost | by the gap | replayed |
| doubled | by its number | dropped |

"""


@dataclass
class Measured:
    """Milliseconds of the main thread's processor time, which other work changes little: per frame, and per picture."""

    frames: list[float]
    pictures: list[float]
    longest: float
    busy: float


def answer(tokens: int, paragraph: str = _PROSE) -> str:
    """A text of so many pieces of four characters."""
    text = "".join(paragraph.format(n=n) for n in range(1 + 4 * tokens // len(paragraph) + 1))
    return text[: 4 * tokens]


#: One block that grows to the end: each piece is parsed with all before it.
CODE = "```python\n" + "".join(f"    total_{n} = compute(first_{n}, second_{n})  # of row {n}\n" for n in range(300))


def traced(browser: Browser, tab: Page, action: Callable[[], None]) -> Measured:
    """What the action has cost."""
    browser.start_tracing(page=tab, categories=_CATEGORIES)
    action()
    main = _main_thread(json.loads(browser.stop_tracing())["traceEvents"])
    tasks = sorted((e for e in main if e["name"] == "RunTask" and "tdur" in e), key=lambda e: e["ts"])
    starts = [task["ts"] for task in tasks]

    def tasks_with(names: set[str]) -> list[float]:
        found: dict[int, float] = {}
        for event in main:
            if event["name"] in names:
                at = bisect_right(starts, event["ts"]) - 1
                if at >= 0 and event["ts"] <= tasks[at]["ts"] + tasks[at]["dur"]:
                    found[at] = tasks[at]["tdur"] / 1000
        return list(found.values())

    durations = [task["tdur"] / 1000 for task in tasks]
    span = (starts[-1] - starts[0]) / 1000
    return Measured(tasks_with({"WebSocketReceive"}), tasks_with(_DRAWS), max(durations), sum(durations) / span)


def _main_thread(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of the thread that draws the page."""
    drawing = Counter((event["pid"], event["tid"]) for event in events if event["name"] == "FireAnimationFrame")
    [(thread, _)] = drawing.most_common(1)
    return [event for event in events if (event["pid"], event["tid"]) == thread]


def p95(values: Sequence[float]) -> str:
    ordered = sorted(values)
    at = min(len(ordered) - 1, int(len(ordered) * 0.95))
    return f"p50 {statistics.median(ordered):.1f} ms, p95 {ordered[at]:.1f} ms, longest {ordered[-1]:.0f} ms"


def starts(browser: Browser, cloud: LocalCloud) -> None:
    painted, ready = [], []
    for n in range(-1, STARTS):
        context = browser.new_context(locale="en-US")
        context.add_init_script(_READY)
        tab = context.new_page()
        tab.goto(f"{cloud.http}/#/s/ready_{n + 1}")
        at = tab.evaluate("window.readyAt")
        first = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        if n >= 0:
            painted.append(first)
            ready.append(at)
        context.close()
    print(f"first picture: {p95(painted)}")
    print(f"connected, and ready for a message: {p95(ready)}")


def streaming(browser: Browser, cloud: LocalCloud, model: ScriptedModel, what: str) -> None:
    for name, text in {"prose": answer(TOKENS), "one block of code": CODE[: 4 * TOKENS]}.items():
        with opened(browser, cloud) as tab:
            message = model.script(name, Says(text, piece=4, delay=1 / RATE))
            found = traced(browser, tab, lambda message=message: say(tab, message))  # type: ignore[misc]
            print(f"{what}, {name}: {len(found.frames)} frames of {len(text) // 4} tokens at {RATE}/s")
            print(f"  a frame: {p95(found.frames)}; a picture: {p95(found.pictures)}; busy {found.busy:.0%}")


def many(browser: Browser, cloud: LocalCloud, model: ScriptedModel) -> None:
    """Frames as fast as a server between the page and the system makes them, with the inspector open."""
    sockets: list[Any] = []

    def between(socket: Any) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: socket.send(message))
        socket.on_message(lambda message: server.send(message))
        sockets.append(socket)

    with opened(browser, cloud, between) as tab:
        say(tab, model.script("first", Says("Hello.")))
        tab.get_by_role("button", name="Inspector", exact=True).click()
        last = max(int(text) for text in tab.locator(".row .seq").all_inner_texts() if text)
        text = answer(MANY)

        def send() -> None:
            for n in range(MANY):
                token = text[4 * n : 4 * n + 4]
                frame = {"type": "assistant_message", "token": token, "content": token, "is_final": n == MANY - 1}
                sockets[-1].send(json.dumps({**frame, "message_id": "m", "turn_id": "t", "seq": last + 1 + n}))
            tab.locator(".answer:not(.writing)").nth(1).wait_for()

        began = time.monotonic()
        found = traced(browser, tab, send)
        rate = MANY / (time.monotonic() - began)
        print(f"{MANY} frames at {rate:.0f}/s, with the inspector open:")
        print(f"  a picture: {p95(found.pictures)}; longest task {found.longest:.0f} ms; busy {found.busy:.0%}")


@contextmanager
def opened(browser: Browser, cloud: LocalCloud, between: Callable[[Any], None] | None = None) -> Iterator[Page]:
    """The page, connected, in a browser profile and a session of its own. `between` gets its WebSockets."""
    context = browser.new_context(locale="en-US")
    context.set_default_timeout(_PATIENCE_MS)
    tab = context.new_page()
    if between is not None:
        tab.route_web_socket("**/ws/**", between)
    tab.goto(cloud.http)
    tab.locator(".link.online").wait_for(state="attached")
    yield tab
    context.close()


def say(tab: Page, message: str) -> None:
    """Send a message, and wait for the end of its turn."""
    turns = tab.locator(".note.end").count()
    tab.get_by_role("textbox", name="Message").fill(message)
    tab.keyboard.press("Enter")
    tab.locator(".note.end").nth(turns).wait_for()


def main() -> None:
    program = find()
    if program is None:
        print("Chromium is not installed: skipped")
        return
    page_build.build()
    with sync_playwright() as driver, ScriptedModel() as model:
        browser = driver.chromium.launch(executable_path=program, args=_FLAGS)
        template = ROOT / "template.yaml"
        with LocalCloud(template, environment=model.environment) as cloud:
            starts(browser, cloud)
            streaming(browser, cloud, model, "as it comes")
        # Without batches, so that almost every token is a frame.
        with LocalCloud(template, environment={**model.environment, "STREAM_MAX_DELAY_MS": "0"}) as cloud:
            streaming(browser, cloud, model, "a frame for every token")
            many(browser, cloud, model)
        browser.close()


if __name__ == "__main__":
    main()
