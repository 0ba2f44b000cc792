"""The documentation page has the API's origin: no foreign script may run in it, and no page may frame it."""

import re
import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx
import pytest
from codelab_local import LocalCloud

from tests.processes import run


class Page(HTMLParser):
    """The URLs that a page loads, and its inline scripts, styles and event handlers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        self.inline += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    def handle_data(self, data: str) -> None:
        if self._in in ("script", "style") and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in = ""


@pytest.fixture(scope="module")
def page(cloud: LocalCloud) -> httpx.Response:
    return httpx.get(f"{cloud.http}/docs", timeout=60)


def test_the_page_loads_nothing_from_other_hosts(cloud: LocalCloud, page: httpx.Response) -> None:
    loads = Page(page.text).loads
    assert len(loads) == 4
    for address in (urljoin(f"{cloud.http}/docs", load) for load in loads):
        assert address.startswith(f"{cloud.http}/docs/")
        assert httpx.get(address, timeout=60).status_code == 200, address


def test_the_page_has_no_inline_script(page: httpx.Response) -> None:
    assert Page(page.text).inline == []


def test_the_policy_allows_no_other_scripts_and_no_framing(cloud: LocalCloud, page: httpx.Response) -> None:
    for answer in (
        page,
        *(httpx.get(f"{cloud.http}/docs/{name}", timeout=60) for name in ("swagger-ui-bundle.js", "begin.js")),
    ):
        rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split(";"))
        assert rules["script-src"] == rules["connect-src"] == "'self'"
        assert {rules[name] for name in ("default-src", "frame-ancestors", "base-uri", "form-action")} == {"'none'"}
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    ["/docs/..%2fmain.py", "/docs/main.py", "/docs/__init__.py", "/docs/a/b.js", "/redoc", "/docs/oauth2-redirect"],
)
def test_only_the_pages_own_assets_are_served(cloud: LocalCloud, path: str) -> None:
    assert httpx.get(f"{cloud.http}{path}", timeout=60).status_code == 404


def test_the_document_is_not_sent_to_an_online_validator(cloud: LocalCloud) -> None:
    begin = httpx.get(f"{cloud.http}/docs/begin.js", timeout=60).text
    assert "validatorUrl: null" in begin
    assert not re.search(r"https?://", begin)


def test_the_pages_package_is_not_imported_at_a_cold_start() -> None:
    code = "import sys; from codelab.rest.app import create_app; create_app(); print('fastapi_swagger' in sys.modules)"
    assert run(sys.executable, "-c", code).stdout == "False\n"
