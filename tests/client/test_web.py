"""fetch_url: public pages only, whatever names resolve to and wherever pages lead."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from codelab_client.tools.executor import Executor
from codelab_client.tools.memory import MemoryWorkspace
from codelab_client.tools.web import Web, is_public, plain

from tests.cases import cases
from tests.client.calls import call
from tests.fakes.http import Exchange, HttpServer

PAGE = (
    "<html><head><title>T</title><style>p {}</style></head><body><h1>One &amp; two</h1><p>some <b>text</b></p></body>"
)


def page(exchange: Exchange) -> None:
    """Pages by path."""
    leads = {
        "/moved": "/page",
        "/away": "http://other.example/page",
        "/inside": "http://169.254.169.254/latest/meta-data",
        "/port": "http://site.example:1/page",
        "/scheme": "file:///etc/passwd",
        "/loop": "/loop",
        "/same": f"http://{exchange.headers['host']}/page",
    }
    if exchange.path in leads:
        exchange.answer(302, headers={"Location": leads[exchange.path]})
    elif exchange.path == "/slow":
        exchange.begin(chunked=False, content_type="text/plain")
        for _ in range(100):
            exchange.write(b"x")
            time.sleep(0.05)
    else:
        kind, body = {
            "/page": ("text/html; charset=utf-8", PAGE.encode()),
            "/large": ("text/plain", b"x" * 1_500_000),
            "/image": ("image/png", b"PNG"),
        }.get(exchange.path, ("text/plain; charset=latin-1", "nicht für".encode("latin-1")))
        exchange.answer(200 if exchange.path != "/gone" else 404, body, {"Content-Type": kind})


@pytest.fixture(scope="module")
def site() -> Iterator[HttpServer]:
    with HttpServer(page) as running:
        yield running


@pytest.fixture
def port(site: HttpServer) -> int:
    return site.port


def fetched(web: Web, url: str) -> Any:
    outcome = asyncio.run(call(Executor(MemoryWorkspace(), web=web), "fetch_url", url=url))
    return outcome.result if outcome.error is None else outcome.error


def reaching(port: int, seconds: float = 20) -> Web:
    """`site.example` is this test's server, as if it were public."""
    return Web(resolve=lambda host, _: [("127.0.0.1", port)], may_reach=lambda _: True, seconds=seconds)


def test_a_page_comes_as_text(site: HttpServer, port: int) -> None:
    page = fetched(reaching(port), f"http://site.example:{port}/page#part")
    assert page == {"status": 200, "content_type": "text/html", "content": "One & two\n\nsome text", "truncated": False}
    assert (site.received[-1].headers["host"], site.received[-1].path) == (f"site.example:{port}", "/page")
    assert fetched(reaching(port), f"http://site.example:{port}/gone")["content"] == "nicht für"
    assert fetched(reaching(port), f"http://site.example:{port}/gone")["status"] == 404
    large = fetched(reaching(port), f"http://site.example:{port}/large")
    assert (len(large["content"]), large["truncated"]) == (1_000_000, True)
    assert "image/png" in fetched(reaching(port), f"http://site.example:{port}/image").message


@pytest.mark.parametrize("path", ["/away", "/inside", "/port", "/scheme"])
def test_a_redirect_elsewhere_is_told_and_not_followed(site: HttpServer, port: int, path: str) -> None:
    before = len(site.received)
    page = fetched(reaching(port), f"http://site.example:{port}{path}")
    assert (page["status"], page["content"]) == (302, "")
    assert page["location"]
    assert len(site.received) == before + 1


def test_a_redirect_on_the_same_host_is_followed(port: int) -> None:
    for path in ("/moved", "/same"):
        page = fetched(reaching(port), f"http://site.example:{port}{path}")
        assert (page["status"], page["url"]) == (200, f"http://site.example:{port}/page")
    assert "redirects more than" in fetched(reaching(port), f"http://site.example:{port}/loop").message


def test_a_page_that_takes_too_long_is_given_up(port: int) -> None:
    before = threading.active_count()
    assert fetched(reaching(port, seconds=0.3), f"http://site.example:{port}/slow").code == "TIMEOUT"
    deadline = time.monotonic() + 10
    while threading.active_count() > before + 1 and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/page",
        "http://localhost:{port}/page",
        "http://[::1]:{port}/page",
        "http://2130706433:{port}/page",
        "http://0x7f.1:{port}/page",
        "http://0:{port}/page",
        "http://[::ffff:127.0.0.1]:{port}/page",
    ],
)
def test_this_machine_is_not_reached(site: HttpServer, port: int, url: str) -> None:
    before = len(site.received)
    assert fetched(Web(), url.format(port=port)).code in ("PERMISSION_DENIED", "EXECUTION_FAILED")
    assert len(site.received) == before


def test_one_address_that_is_not_public_is_enough_to_refuse_a_name(port: int) -> None:
    def resolve(host: str, _: int) -> Sequence[tuple[str, int]]:
        return [("93.184.215.14", 80), ("127.0.0.1", port)]

    assert fetched(Web(resolve=resolve), "http://mixed.example/").code == "PERMISSION_DENIED"


@cases(
    "url",
    [
        "http://user@site.example/",
        "http://site.example\\@evil.example/",
        "http://site.example/ a",
        "ftp://site.example/",
        "http:///path-only",
        "http://site.example:99999/",
        "http://site.example/\r\nX: y",
        "http://сайт.example/",
    ],
)
def test_an_address_that_programs_read_differently_is_refused(url: str) -> None:
    assert fetched(Web(resolve=lambda *_: [], may_reach=lambda _: True), url).code == "INVALID_ARGUMENTS"


@cases(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *("255.255.255.255", "198.18.0.1", "192.0.0.1", "240.0.0.1", "::", "::1", "fe80::1%eth0", "fd00:ec2::254"),
        *(
            "ff02::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:0:1::1",
            "2001:db8::1",
            "nonsense",
        ),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_addresses_that_are_public() -> None:
    assert is_public("93.184.215.14")
    assert is_public("2606:2800:21f:cb07:6820:80da:af6b:8b2c")


def test_markup_is_left_out() -> None:
    html = "<ul><li>a<li>b</ul><script>x()</script><pre>1\n  2</pre><table><tr><td>c<td>d</table><p>e</p>"
    assert plain(html) == "a\nb\n\n1\n  2\n\n c d\n\ne"


def test_hidden_text_stays_hidden_whatever_is_in_it() -> None:
    html = '<a title="a>b">1</a><!-- <p> -- > x --><SCRIPT>if (a<b) "<p>x</scripty>"</Script >2 < 3'
    assert plain(html) == "12 < 3"
    assert plain("<svg><svg></svg>x</svg>1") == "1"
    assert plain("<head><p>x<body>1<template>x<p>x</template><b") == "1"
    assert plain(f"&lt;&#{'9' * 5_000};") == f"&lt;&#{'9' * 5_000};"


@cases("piece", ["<a ", '<a x="', "<a x='", "<!--", "<![", "<?", "</a ", "<svg>", "<script", "&#9"])
def test_no_page_takes_more_time_than_its_length(piece: str) -> None:
    """With time that grows with the square of the length, this would run for hours."""
    assert len(plain(piece * (300_000 // len(piece)) + "</style>" * 15_000)) <= 300_000
