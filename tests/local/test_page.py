"""The web page at `/`: its headers, what is served, and what `/` says while it is built."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest
from codelab_local.http.protocol import Request, Response
from codelab_local.page.build import PageBuild, State
from codelab_local.page.files import Page

from tests.waiting import until


@pytest.fixture
def built(tmp_path: Path) -> Path:
    dist = tmp_path / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / ".vite").mkdir()
    (dist / "index.html").write_text("<!doctype html><title>the page</title>")
    (dist / "assets" / "index-1a2b.js").write_text("run()")
    (dist / ".vite" / "manifest.json").write_text("{}")
    (tmp_path / "secret").write_text("secret")
    (dist / "link").symlink_to(tmp_path / "secret")
    return dist


def get(page: Page, path: str, method: str = "GET", **headers: str) -> Response | None:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return page.handle(Request(method, path, "", names, b""))


def test_the_page_runs_and_loads_only_its_own_files(built: Path) -> None:
    page = Page(built, PageBuild(""), "http://127.0.0.1:8000")
    for path in ("/", "/assets/index-1a2b.js"):
        answer = get(page, path)
        assert answer is not None
        assert answer.status == 200
        rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split(";"))
        assert rules["script-src"] == rules["style-src"] == "'self'"
        assert rules["connect-src"] == "'self' http://127.0.0.1:8000"
        assert {rules[name] for name in ("default-src", "frame-ancestors", "base-uri", "form-action")} == {"'none'"}
        assert rules["require-trusted-types-for"] == "'script'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_only_files_with_a_digest_in_their_name_are_cached(built: Path) -> None:
    page = Page(built, PageBuild(""), "")
    start, script = get(page, "/"), get(page, "/assets/index-1a2b.js")
    assert start is not None
    assert script is not None
    assert (start.content_type, script.content_type) == ("text/html; charset=utf-8", "text/javascript; charset=utf-8")
    assert start.headers["Cache-Control"] == "no-cache"
    assert "immutable" in script.headers["Cache-Control"]
    again = get(page, "/", if_none_match=start.headers["ETag"])
    assert again is not None
    assert (again.status, again.body) == (304, b"")
    head = get(page, "/", "HEAD")
    assert head is not None
    assert (head.headers["Content-Length"], head.body) == (str(len(start.body)), b"")


@pytest.mark.parametrize(
    "path",
    [
        *("/../secret", "/assets/../../secret", "/..%2fsecret", "/%2e%2e/secret", "//secret", "/link", "/..\\secret"),
        *("/.vite/manifest.json", "/assets", "/assets/", "/health", "/index.html/x"),
    ],
)
def test_nothing_else_is_served(built: Path, path: str) -> None:
    assert get(Page(built, PageBuild(""), ""), path) is None


def test_other_methods_are_not_the_pages(built: Path) -> None:
    assert get(Page(built, PageBuild(""), ""), "/", "POST") is None


def test_without_a_build_the_page_says_how_to_get_it(tmp_path: Path) -> None:
    answer = get(Page(tmp_path / "dist", PageBuild(""), ""), "/")
    assert answer is not None
    assert answer.status == 404
    assert b"make page" in answer.body


async def test_the_progress_is_shown_and_then_the_page(tmp_path: Path) -> None:
    dist, gate = tmp_path / "dist", tmp_path / "gate"
    os.mkfifo(gate)
    script = f"echo '<b>step one'; read -r _ < {gate}; mkdir {dist}; echo made > {dist}/index.html"
    build = PageBuild(f'sh -c "{script}"')
    page = Page(dist, build, "")
    build.start()
    while not build.output:
        await asyncio.sleep(0.01)
    waiting = get(page, "/")
    assert waiting is not None
    assert (waiting.status, b"http-equiv" in waiting.body) == (503, True)
    assert b"&lt;b&gt;step one" in waiting.body
    gate.write_text("go\n")
    while build.state is State.RUNNING:
        await asyncio.sleep(0.01)
    shown = get(page, "/")
    assert shown is not None
    assert (build.state, shown.status, shown.body) == (State.DONE, 200, b"made\n")


@pytest.mark.parametrize("command", ["sh -c 'echo no registry; exit 3'", "/no/such/program"])
async def test_a_failed_build_is_explained(tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    build = PageBuild(command)
    page = Page(tmp_path / "dist", build, "")
    build.start()
    while build.state is State.RUNNING:
        await asyncio.sleep(0.01)
    answer = get(page, "/")
    assert answer is not None
    assert (build.state, answer.status, b"http-equiv" in answer.body) == (State.FAILED, 404, False)
    assert b"Node.js" in answer.body
    assert (b"no registry" if "registry" in command else b"No such file") in answer.body
    assert "the system runs without it" in capfd.readouterr().err


async def test_a_stopped_system_leaves_no_build_behind(tmp_path: Path) -> None:
    build = PageBuild("sh -c 'sleep 1000 & echo $!; wait'")
    build.start()
    while not build.output:
        await asyncio.sleep(0.01)
    await build.stop()
    child = int(build.output[0])
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
