"""The page in a real browser, against the system with the scripted model."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codelab_local import LocalCloud

from infra import page as page_build
from tests.page.tab import Tab
from tests.security.chromium import find

_names = (f"page_{n}" for n in itertools.count(1))

OpenTab = Callable[..., Tab]


@pytest.fixture(scope="session")
def built() -> None:
    """The page, built from its sources."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None or page_build.version(node) < page_build.MINIMUM:
        pytest.skip("these tests need Node.js 20.19 or later with npm")
    page_build.build()


@pytest.fixture(scope="package")  # as long as the driver is there, no other test may run an event loop in its process
def browser(request: pytest.FixtureRequest, built: None) -> Iterator[Any]:
    is_deep = request.config.getoption("markexpr") != "not deep"
    program = find(notifies=is_deep)
    if program is None:
        if not is_deep:
            pytest.skip("Chromium is not installed: apt-get install chromium")
        pytest.fail("make test-deep needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test installs it")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
        # With a process for each page, starting it is most of what a test takes.
        running = driver.chromium.launch(executable_path=program, args=[*flags, "--process-per-site"])
        yield running
        running.close()


@pytest.fixture(scope="package")
def shared_profile(browser: Any, cloud: LocalCloud) -> Any:
    """A browser profile that is emptied after each test. A page that stays open keeps its process."""
    profile = browser.new_context(locale="en-US", reduced_motion="reduce")
    profile.new_page().goto(f"{cloud.http}/favicon.svg")
    return profile


@pytest.fixture
def open_tab(browser: Any, shared_profile: Any, cloud: LocalCloud) -> Iterator[OpenTab]:
    """Opens tabs, each in a browser profile of its own unless `beside` names another tab.

    After the test, no tab may have had an error, broken its policy or asked another host.
    """
    opened: list[Tab] = []
    own: list[Any] = []

    def new_profile(context: dict[str, Any]) -> Any:
        if not opened and not context:
            return shared_profile
        own.append(browser.new_context(locale="en-US", **context))
        return own[-1]

    def open_one(
        session: str | None = None, *, beside: Tab | None = None, at: LocalCloud = cloud, **context: Any
    ) -> Tab:
        profile = beside.context if beside else new_profile(context)
        tab = Tab(profile, at.http, next(_names) if session is None else session)
        opened.append(tab)
        return tab

    yield open_one
    for profile in own:
        profile.close()
    for page in shared_profile.pages[1:]:
        page.close()
    devtools = shared_profile.new_cdp_session(shared_profile.pages[0])
    for origin in {tab.origin for tab in opened}:
        devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    devtools.detach()
    for tab in opened:
        assert tab.errors == []
        assert tab.foreign == []


@pytest.fixture
def tab(open_tab: OpenTab) -> Tab:
    return open_tab().online()
