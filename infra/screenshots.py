"""`make screenshots`: pictures of the page in both themes and three widths, in build/screenshots. Needs Chromium."""

import shutil
import sys
from pathlib import Path
from typing import Any

from codelab_local import LocalCloud

from infra import page

FOLDER = page.ROOT / "build" / "screenshots"
THEMES = ("light", "dark")
SIZES = {360: 760, 1280: 800, 2560: 1300}
PATIENCE = 60_000


def take(browser: Any, origin: str, theme: str, width: int) -> None:
    """A conversation that waits for a decision, the files, a review, and the inspector."""
    from playwright.sync_api import Page

    size = {"width": width, "height": SIZES[width]}
    context = browser.new_context(viewport=size, color_scheme=theme, locale="en-US", reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    tab: Page = context.new_page()

    def shoot(name: str) -> None:
        tab.wait_for_timeout(400)
        tab.screenshot(path=FOLDER / f"{theme}-{width}-{name}.png")

    tab.goto(origin)
    tab.locator(".link.online").wait_for(state="attached")
    shoot("welcome")
    for text in ("Make a plan", "Replace “Hello” with “Good morning” in main.py"):
        tab.get_by_role("textbox", name="Message").fill(text)
        tab.keyboard.press("Enter")
        tab.locator(".call.asking .diff, .note.end").last.wait_for()
        tab.wait_for_timeout(1500)
    tab.locator(".call.asking .diff").wait_for()
    shoot("approval")
    tab.get_by_role("button", name="Files", exact=True).click()
    tab.get_by_role("button", name="main.py", exact=True).click()
    tab.locator(".cm-content").wait_for()
    shoot("files")
    if width < 900:
        tab.get_by_role("button", name="Chat", exact=True).click()
    tab.get_by_role("button", name="Review the changes").click()
    tab.locator("[name=accept]").wait_for()
    shoot("review")
    tab.get_by_role("button", name="Accept all").click()
    tab.get_by_role("button", name="Apply the reviewed text").click()
    tab.locator(".note.end").nth(1).wait_for()
    tab.get_by_role("button", name="Inspector", exact=True).click()
    tab.get_by_role("button", name="Cut the socket").click()
    tab.locator(".row.close").first.wait_for()
    shoot("inspector")
    tab.get_by_role("tab", name="Turns").click()
    shoot("turns")
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
        for theme in THEMES:
            for width in SIZES:
                take(browser, cloud.http, theme, width)
        browser.close()
    sys.stdout.write(f"{FOLDER}\n")


if __name__ == "__main__":
    main()
