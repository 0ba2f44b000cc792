"""`make screenshots`: pictures of the page in build/screenshots, and those of the docs in docs/images. Needs Chromium.

Every view is taken at three widths, and the widths share the themes and languages among them, so that all are seen.
"""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelab_local import LocalCloud

from infra import page

FOLDER = page.ROOT / "build" / "screenshots"
IMAGES = page.ROOT / "docs" / "images"
#: Width and height, theme and language.
SETTINGS = (((360, 760), "dark", "ru-RU"), ((1280, 800), "light", "en-US"), ((2560, 1300), "dark", "en-US"))
#: Views of the page that the docs show, at one width.
SHOWN_WIDTH = 1280
SHOWN = {"first": "page-first", "waits": "page-asks", "decided": "page-decided"}
PATIENCE = 60_000

#: What the page is told, by language.
WORDS = {
    "en-US": ("Replace “Hello” with “Good morning” in main.py", "Show me Markdown"),
    "ru-RU": ("Замени «Hello» на «Привет» в файле main.py", "Покажи Markdown"),
}


@dataclass(frozen=True)
class Visit:
    """A browser's tab with the page, and what takes a picture of it under a name."""

    tab: Any
    shoot: Callable[[str], None]
    language: str
    is_narrow: bool

    def say(self, text: str) -> None:
        self.tab.locator("#message").fill(text)
        self.tab.keyboard.press("Enter")

    def view(self, name: str) -> None:
        self.tab.locator(f".views .to-{name}").click()


def take(visit: Visit) -> None:
    """All views: a change that is asked about, reviewed and decided, then an answer, and what is beside them."""
    tab, (change, answer) = visit.tab, WORDS[visit.language]
    visit.shoot("first")
    visit.say(change)
    tab.locator(".call.asking .diff").wait_for()
    tab.locator(".call.asking button.primary[aria-disabled=false]").wait_for()
    visit.shoot("waits")
    tab.locator(".call.asking .buttons button").nth(1).click()
    tab.locator("[name=accept]").first.wait_for()
    visit.shoot("review")
    tab.keyboard.press("Escape")
    tab.locator(".call.asking button.primary").click()
    tab.locator(".note.end").first.wait_for()
    visit.shoot("decided")
    visit.say(answer)
    tab.locator(".note.end").nth(1).wait_for()
    visit.shoot("answer")
    if tab.locator(".to-sessions").is_visible():
        visit.view("sessions")
    visit.shoot("sessions")
    visit.view("inspector")
    tab.locator(".inspector [role=tab]").nth(1).click()
    visit.shoot("inspector")
    tab.locator(".top button.icon").last.click()
    tab.locator("dialog[open]").wait_for()
    visit.shoot("settings")


def visit(browser: Any, origin: str, setting: tuple[tuple[int, int], str, str]) -> None:
    """Take all pictures of one window."""
    (width, height), theme, language = setting
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, locale=language, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()

    def shoot(name: str) -> None:
        tab.mouse.move(0, 0)
        tab.wait_for_timeout(400)
        picture = tab.screenshot(path=FOLDER / f"{name}-{width}-{theme}-{language[:2]}.png")
        if width == SHOWN_WIDTH and name in SHOWN:
            (IMAGES / f"{SHOWN[name]}.png").write_bytes(picture)

    tab.goto(origin)
    tab.locator(".link.online").wait_for(state="attached")
    take(Visit(tab, shoot, language, width < 900))
    context.close()


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("make screenshots needs Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    page.build()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with LocalCloud(Path(page.ROOT, "template.yaml")) as cloud, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for setting in SETTINGS:
            visit(browser, cloud.http, setting)
        browser.close()
    sys.stdout.write(f"{FOLDER}\n")


if __name__ == "__main__":
    main()
