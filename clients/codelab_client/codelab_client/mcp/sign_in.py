"""Signing in at an MCP server that asks for it (OAuth 2.1), with the user's browser; later starts renew the token.

The SDK has the flow: discovery, registration, PKCE, issuers and resources. Here is what it leaves open: where the
browser comes back to, where tokens are kept, which addresses a server may name, and that the user is asked first.
"""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from codelab_client.login import kept
from codelab_client.login.errors import LoginError
from codelab_client.login.redirect import Redirect
from codelab_client.mcp.config import McpConfigError, ServerConfig
from codelab_client.session.address import is_loopback

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

#: Shows the user the address at which a server (by its name) wants them to sign in. Returns whether they will.
Show = Callable[[str, str], Awaitable[bool]]
#: Seconds that the user has.
SIGN_IN_S = 600.0


class SignIn:
    """The way to one server's tokens.

    show: None if nobody is there to sign in. is_starting: the server is being started, and may ask; later, a call of
    the agent must not open the user's browser.
    """

    def __init__(self, server: ServerConfig, show: Show | None) -> None:
        self._server, self._show = server, show
        self.is_starting = True
        self._kept = _Kept(server.url)
        self._redirect: Redirect | None = None
        self._port = 0

    async def auth(self) -> "httpx2.Auth":
        """What signs requests."""
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata

        await self._kept.read()
        self._port = _free_port(self._kept.port)
        self._kept.use(self._port)
        metadata = {
            "client_name": "codelab",
            "redirect_uris": [f"http://127.0.0.1:{self._port}/"],
            "token_endpoint_auth_method": "none",
        }
        provider = OAuthClientProvider(
            self._server.url, OAuthClientMetadata.model_validate(metadata), self._kept, self._open, self._come_back
        )
        # It remembers this of tokens that it gets, and not of those that it reads.
        provider.context.token_expiry_time = self._kept.expires_at
        return provider

    async def check(self, request: "httpx2.Request") -> None:
        """Refuse an address that a server may not name: one that others can read, or, from outside, of this machine."""
        self._check(str(request.url))

    def _check(self, url: str) -> None:
        here, there = urlsplit(self._server.url), urlsplit(url)
        if (there.scheme, there.netloc) == (here.scheme, here.netloc):
            return
        if is_loopback(there.hostname):
            if is_loopback(here.hostname):
                return
        elif there.scheme == "https":
            return
        raise McpConfigError(f"{self._server.name} wants a sign-in at {url[:200]}, which is not allowed")

    async def _open(self, url: str) -> None:
        name = self._server.name
        if self._show is None or not self.is_starting:
            raise McpConfigError(f"{name} wants you to sign in: /mcp start {name} in the terminal")
        self._check(url)
        self._redirect = redirect = Redirect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        redirect.host = f"127.0.0.1:{self._port}"
        if not await self._show(name, url):
            raise McpConfigError(f"{name} is not started: nobody signed in")

    async def _come_back(self) -> "AuthorizationCodeResult":
        from mcp.shared.auth import AuthorizationCodeResult

        redirect, name = self._redirect, self._server.name
        assert redirect is not None
        try:
            async with asyncio.timeout(SIGN_IN_S), await asyncio.start_server(redirect.serve, "127.0.0.1", self._port):
                answer = await redirect.answer
        except TimeoutError:
            raise McpConfigError(f"{name} is not started: nobody signed in within ten minutes") from None
        except OSError as error:
            raise McpConfigError(f"{name} is not started: port {self._port} of this machine: {error}") from None
        if "code" not in answer:
            raise McpConfigError(f"{name} is not started: the sign-in was refused: {answer.get('error', '')[:100]}")
        return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer.get("iss"))


def forget(server: ServerConfig, workspace: Path) -> None:
    """Forget the tokens of a server of a workspace, if it has any. Raises LoginError, or McpConfigError."""
    if server.url:
        kept.forget(_name(server.expanded(workspace=workspace).url))


def _name(url: str) -> str:
    return f"MCP {url}"


def _free_port(port: int) -> int:
    """A port of this machine, or a free one if another program has it."""
    with socket.socket() as bound:
        if os.name == "posix":  # Elsewhere it would take a port that another program has.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            bound.bind(("127.0.0.1", 0))
        free: int = bound.getsockname()[1]
        return free


class _Kept:
    """The tokens of a server, and what it knows this client by: where the logins at servers are kept, too."""

    def __init__(self, url: str) -> None:
        self._name = _name(url)
        self._content: dict[str, Any] = {}

    @property
    def port(self) -> int:
        port = self._content.get("port")
        return port if isinstance(port, int) else 0

    @property
    def expires_at(self) -> float | None:
        """When the tokens expire, in seconds since the epoch, as far as is known."""
        expires_at = self._content.get("expires_at")
        return expires_at if isinstance(expires_at, float) else None

    async def read(self) -> None:
        with contextlib.suppress(LoginError, ValueError):
            if (login := await asyncio.to_thread(kept.find, self._name)) is not None:
                content = json.loads(login.token)
                self._content = content if isinstance(content, dict) else {}

    def use(self, port: int) -> None:
        """The browser comes back to this port, by which a server knows a client: at another it is another one."""
        if self.port != port:
            self._content = {"port": port}

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthToken

        return OAuthToken.model_validate(self._content["tokens"]) if "tokens" in self._content else None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        self._content["expires_at"] = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._keep("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        return OAuthClientInformationFull.model_validate(self._content["client"]) if "client" in self._content else None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        await self._keep("client", client_info.model_dump(mode="json", exclude_none=True))

    async def _keep(self, name: str, value: Any) -> None:
        self._content[name] = value
        with contextlib.suppress(LoginError):  # It is asked for again at the next start.
            await asyncio.to_thread(kept.keep, self._name, kept.Login(json.dumps(self._content)))
