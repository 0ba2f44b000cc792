"""Signing in at an MCP server: once, with the consent of the user, and at no address that it must not name."""

import asyncio
import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from codelab_client.execution import ToolCall
from codelab_client.login import kept
from codelab_client.mcp import McpConfigError, McpError, McpTools, ServerConfig, sign_in
from codelab_client.mcp.sign_in import SignIn

from tests.client.mcp_config import served


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tokens are in the file, as on a machine without a keyring."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("codelab_client.login.kept.kept_in_keyring", lambda *_: "")


@contextlib.contextmanager
def guarded(*options: str) -> Iterator[ServerConfig]:
    with served("mcp_sign_in_server.py", "PORT", *options) as url:
        yield ServerConfig("guarded", url=url)


class User:
    """Signs in with a browser, or does not."""

    def __init__(self, *, agrees: bool = True) -> None:
        self.agrees, self.urls, self._pages = agrees, list[str](), list[asyncio.Task[None]]()

    async def show(self, name: str, url: str) -> bool:
        assert name == "guarded"
        self.urls.append(url)
        if self.agrees:
            self._pages.append(asyncio.ensure_future(self._browse(url)))
        return self.agrees

    async def _browse(self, url: str) -> None:
        await asyncio.sleep(0.2)
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            assert (await browser.get(url)).status_code == 200


def tools_of(tmp_path: Path, user: User | None) -> McpTools:
    tools = McpTools(tmp_path, tmp_path / "state")
    tools.sign_in = user.show if user is not None else None
    return tools


async def who(tools: McpTools) -> Any:
    outcome = await tools.execute(ToolCall("c", "guarded.who"))
    assert outcome.error is None, outcome.error
    return outcome.result["content"]


async def test_the_user_signs_in_once_and_later_starts_ask_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User()
    with guarded() as server:
        tools = tools_of(tmp_path, user)
        await tools.add(server)
        assert await who(tools) == "1 clients, 1 sign-ins, 0 renewals"
        await tools.aclose()
        again = tools_of(tmp_path, None)
        await again.add(server)
        assert await who(again) == "1 clients, 1 sign-ins, 0 renewals"
        await again.aclose()
    assert len(user.urls) == 1
    query = parse_qs(urlsplit(user.urls[0]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["resource"] == [server.url]
    assert stat.S_IMODE(kept.file().stat().st_mode) == 0o600
    assert kept.find(f"MCP {server.url}") is not None
    monkeypatch.setenv("MCP_HOST", urlsplit(server.url).netloc)
    sign_in.forget(ServerConfig("guarded", url="http://${MCP_HOST}/mcp"), tmp_path)
    assert kept.find(f"MCP {server.url}") is None


async def test_a_token_that_has_expired_is_renewed_without_the_user(tmp_path: Path) -> None:
    with guarded("1") as server:
        tools = tools_of(tmp_path, User())
        await tools.add(server)
        await tools.aclose()
        await asyncio.sleep(2.2)
        again = tools_of(tmp_path, None)
        await again.add(server)
        assert "1 sign-ins" in await who(again)
        assert "0 renewals" not in await who(again)
        await again.aclose()


@pytest.mark.parametrize(
    ("user", "said"), [(None, "wants you to sign in: /mcp start guarded"), (User(agrees=False), "nobody signed in")]
)
async def test_without_the_user_it_is_not_started_and_says_why(tmp_path: Path, user: User | None, said: str) -> None:
    with guarded() as server:
        with pytest.raises(McpError, match=said):
            await tools_of(tmp_path, user).add(server)
        assert "tokens" not in str(kept.find(f"MCP {server.url}"))


async def test_a_call_opens_no_browser(tmp_path: Path) -> None:
    """A server that has been started asks again, such as because its tokens were revoked."""
    signing = SignIn(ServerConfig("guarded", url="https://mcp.example.com/mcp"), User().show)
    signing.is_starting = False
    with pytest.raises(McpConfigError, match="wants you to sign in: /mcp start guarded"):
        await signing._open("https://mcp.example.com/authorize?state=x")


@pytest.mark.parametrize(
    ("server", "url", "allowed"),
    [
        ("https://mcp.example.com/mcp", "https://mcp.example.com/authorize", True),
        ("https://mcp.example.com/mcp", "https://login.example.com/authorize", True),
        ("https://mcp.example.com/mcp", "http://login.example.com/authorize", False),
        ("https://mcp.example.com/mcp", "http://mcp.example.com/token", False),
        ("https://mcp.example.com/mcp", "http://127.0.0.1:8000/token", False),
        ("https://mcp.example.com/mcp", "https://localhost/token", False),
        ("https://mcp.example.com/mcp", "https://[::1]/token", False),
        ("https://mcp.example.com/mcp", "file:///etc/passwd", False),
        ("https://mcp.example.com/mcp", "javascript:alert(1)", False),
        ("http://127.0.0.1:9000/mcp", "http://127.0.0.1:9001/authorize", True),
        ("http://127.0.0.1:9000/mcp", "http://login.example.com/authorize", False),
    ],
)
async def test_a_server_names_only_addresses_that_nobody_can_read(server: str, url: str, allowed: bool) -> None:
    signing = SignIn(ServerConfig("guarded", url=server), User(agrees=False).show)
    with pytest.raises(McpConfigError, match="nobody signed in" if allowed else "which is not allowed"):
        await signing._open(url)
    if url.startswith("http"):
        request = httpx2.Request("GET", url)
        if allowed:
            await signing.check(request)
        else:
            with pytest.raises(McpConfigError):
                await signing.check(request)


async def test_another_page_cannot_end_the_sign_in(tmp_path: Path) -> None:
    """Any page can send a browser to the port; without the state of this sign-in it is nothing."""
    user = User()
    blocked: list[int] = []

    async def browse(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        async with httpx2.AsyncClient(trust_env=False) as browser:
            await asyncio.sleep(0.2)
            for forged in (
                "?code=evil&state=other",
                "?code=evil",
                "?error=access_denied",
                f"x?state={query['state'][0]}",
            ):
                blocked.append((await browser.get(query["redirect_uri"][0] + forged)).status_code)
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            await browser.get(url)

    user._browse = browse  # type: ignore[method-assign]
    with guarded() as server:
        tools = tools_of(tmp_path, user)
        await tools.add(server)
        assert "1 sign-ins" in await who(tools)
        await tools.aclose()
    assert blocked == [400, 400, 400, 404]


async def test_an_entry_with_a_token_of_its_own_signs_nobody_in(tmp_path: Path) -> None:
    user = User()
    with guarded() as server:
        with_token = ServerConfig("guarded", url=server.url, headers={"authorization": "Bearer wrong"})
        with pytest.raises(McpError):
            await tools_of(tmp_path, user).add(with_token)
    assert user.urls == []
