"""Which hosts are behind a proxy: what HTTPS_PROXY, ALL_PROXY and NO_PROXY say, as curl and others read them."""

import pytest
from codelab.http.proxies import Proxy, ProxyRefused, is_direct, proxy_for
from requests.utils import should_bypass_proxies

from tests.cases import cases

NAMES = [
    form(name) for name in ("https_proxy", "all_proxy", "no_proxy", "http_proxy") for form in (str.lower, str.upper)
]
PROXY = Proxy("proxy.internal", 3128, {})


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@cases(
    ("no_proxy", "host", "port", "direct"),
    [
        ("", "a.example", 443, False),
        (" , ,", "a.example", 443, False),
        ("*", "a.example", 443, True),
        ("example", "a.example", 443, True),
        (".example", "a.example", 443, True),
        (".example", "example", 443, True),
        ("*.example", "a.example", 443, True),
        ("EXAMPLE", "a.example", 443, True),
        ("example", "A.Example.", 443, True),
        ("ample", "a.example", 443, False),
        ("a.example", "example", 443, False),
        ("other, a.example ,third", "a.example", 443, True),
        ("a.example:8443", "a.example", 8443, True),
        ("a.example:8443", "a.example", 443, False),
        ("10.0.0.0/8", "10.200.3.4", 443, True),
        ("10.0.0.0/8", "11.0.0.1", 443, False),
        ("10.1.2.3/8", "10.200.3.4", 443, True),
        ("169.254.169.254", "169.254.169.254", 80, True),
        ("169.254.169.254:443", "169.254.169.254", 80, False),
        ("127.0.0.1", "127.0.0.11", 443, False),
        ("0.0.0.1", "127.0.0.1", 443, False),
        ("10.0.0.0/8", "10.0.0.1.example", 443, False),
        ("::1", "::1", 443, True),
        ("[::1]", "::1", 443, True),
        ("::1", "[::1]", 443, True),
        ("[::1]:8443", "::1", 8443, True),
        ("[::1]:8443", "::1", 443, False),
        ("fd00::/8", "fd12::1", 443, True),
        ("fd00::/8", "10.0.0.1", 443, False),
        ("0:0:0:0:0:0:0:1", "::1", 443, True),
        ("10.0.0.0/99,a.example", "a.example", 443, True),
        ("/,:,[],*.,.", "a.example", 443, False),
        ("localhost", "localhost", 443, True),
    ],
)
def test_what_is_reached_directly(no_proxy: str, host: str, port: int, direct: bool) -> None:
    assert is_direct(host, port, no_proxy) is direct


@pytest.mark.parametrize("host", ["10.1.2.3", "11.1.2.3", "a.example", "b.a.example", "example.org", "localhost"])
@pytest.mark.parametrize(
    "no_proxy", ["10.0.0.0/8", "10.1.2.3", "a.example", ".a.example", "localhost,example.org", "*"]
)
def test_it_is_what_requests_does(host: str, no_proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert is_direct(host, 443, no_proxy) == should_bypass_proxies(f"https://{host}/", no_proxy=None)


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://proxy.internal:3128"}, PROXY),
        ({"HTTPS_PROXY": "proxy.internal:3128"}, PROXY),
        ({"https_proxy": "http://proxy.internal:3128", "HTTPS_PROXY": "http://other"}, PROXY),
        ({"ALL_PROXY": "http://proxy.internal:3128"}, PROXY),
        ({"ALL_PROXY": "socks5://x", "HTTPS_PROXY": "http://proxy.internal:3128"}, PROXY),
        ({"HTTPS_PROXY": "http://other", "https_proxy": ""}, None),
        ({"HTTP_PROXY": "http://proxy.internal:3128"}, None),
        ({"HTTPS_PROXY": "socks5://x", "NO_PROXY": "a.example"}, None),
        ({"HTTPS_PROXY": "http://proxy.internal:3128", "NO_PROXY": "a.example", "no_proxy": "b.example"}, PROXY),
        ({"HTTPS_PROXY": "http://[fd00::1]:3128"}, Proxy("fd00::1", 3128, {})),
        ({"HTTPS_PROXY": "http://u:p%40ss@h"}, Proxy("h", 80, {"Proxy-Authorization": "Basic dTpwQHNz"})),
    ],
)
def test_which_proxy_leads_to_a_host(
    variables: dict[str, str], proxy: Proxy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for("a.example", 443) == proxy


@pytest.mark.parametrize(
    "url", ["socks5://u:secret@x", "socks5h://x", "https://x", "http://", "http://[x", "http://h:p"]
)
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_that_cannot_be_used_is_refused(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, url)
    with pytest.raises(ProxyRefused, match=f"^{name} does not name an http:// proxy") as error:
        proxy_for("a.example", 443)
    assert "secret" not in str(error.value)


def test_what_a_desktop_is_set_to_counts_where_no_variable_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codelab.http.proxies.sys.platform", "darwin")
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://proxy.internal:3128"})
    monkeypatch.setattr("urllib.request.proxy_bypass", lambda host: host == "b.example")
    assert proxy_for("a.example", 443) == PROXY
    assert proxy_for("b.example", 443) is None
    monkeypatch.setenv("ALL_PROXY", "http://other:1")
    assert proxy_for("b.example", 443) == Proxy("other", 1, {})
