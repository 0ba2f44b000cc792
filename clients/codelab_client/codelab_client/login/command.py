"""`codelab login` and `codelab logout`."""

import asyncio
import json
import os
import sys
import time
import webbrowser

from codelab_client.login import code_flow, device_flow, kept
from codelab_client.login.errors import LoginError, NoProvider
from codelab_client.login.provider import Client, Provider, checked_issuer
from codelab_client.login.renewing import exclusively
from codelab_client.safe_text import safe, safe_line
from codelab_client.session import http, tokens
from codelab_client.session.address import Address, is_secure
from codelab_client.session.errors import InsecureAddress
from codelab_client.session.rest import Rest, RestError

_MOST_TOKEN_CHARS = 16_000
_MOST_CLIENT_ID_CHARS = 300


async def log_in(
    address: Address, *, issuer: str = "", device: bool = False, browser: bool = True, port: int = 0
) -> int:
    """Sign in at the provider that the server names, after the user has seen and confirmed it.

    issuer: the one that the user expects, which needs no confirmation. Returns the exit code. Raises SessionError.
    """
    _refuse_without_tls(address)
    client = await _client(address)
    if client is None:
        _say(f"{address.shown} needs no token, so there is nothing to sign in to.")
        return 0
    await _confirm(address, client, issuer)
    provider = await Provider.discover(client)
    if device:
        login = await device_flow.sign_in(provider, _show_code)
    else:
        login = await code_flow.sign_in(provider, _open if browser else _show_address, port)
    await _keep(address, login)
    return 0


async def paste(address: Address) -> int:
    """Keep a token that the user pastes, or a pipe gives. Returns the exit code. Raises SessionError."""
    _refuse_without_tls(address)
    if sys.stdin.isatty():
        from codelab_client.line_input import ask_hidden

        token = (await ask_hidden("Token (it is not shown): ")).strip()
    else:
        token = sys.stdin.readline(_MOST_TOKEN_CHARS + 2).strip()
    if not token or len(token) > _MOST_TOKEN_CHARS or not (token.isascii() and token.isprintable()) or " " in token:
        raise LoginError("That is no token: it must be one line of printable characters without spaces")
    expires = tokens.expires_at(token)
    if expires is not None and expires <= time.time():
        raise LoginError("This token has already expired")
    await _keep(address, kept.Login(token))
    return 0


async def log_out(address: Address) -> int:
    """Forget the login at the server, and tell its provider. Returns the exit code. Raises SessionError."""
    async with exclusively():
        login = await asyncio.to_thread(kept.find, address.origin)
        if login is None:
            _say(f"Nobody is signed in at {address.shown}.")
            return 0
        await asyncio.to_thread(kept.forget, address.origin)
    if login.refresh_token:
        try:
            provider = await Provider.discover(Client(login.issuer, login.client_id, login.audience))
            await provider.post("revocation_endpoint", token=login.refresh_token, token_type_hint="refresh_token")
        except LoginError as error:
            _say(f"The provider was not told: {error}.")
    _say(f"The login at {address.shown} is forgotten here. The server takes its token until that expires.")
    return 0


def _refuse_without_tls(address: Address) -> None:
    """Without TLS anybody on the way could name their own issuer, or read the token. Raises InsecureAddress."""
    for url in filter(None, (address.url, address.rest_url)):
        if not (is_secure(url) or address.insecure_token):
            raise InsecureAddress(f"Nobody signs in over {url}, which is not encrypted: use wss:// and https://")


async def _client(address: Address) -> Client | None:
    """The OAuth client with which the server wants users to sign in; None if it needs no token. Raises LoginError."""
    if not address.rest_url:
        raise LoginError("The address of the REST API is not known: name it with --rest-url or CODELAB_REST_URL")
    url = f"{address.rest_url.removesuffix('/api/v1')}/client-config"
    try:
        answer = await http.send("GET", url, timeout_s=30)
        auth = json.loads(answer.body)["auth"]
        mode, issuer, client_id = auth["mode"], auth.get("issuer"), auth.get("client_id")
        audience = auth.get("audience") or ""
    except http.HttpError as error:
        raise LoginError(f"{url} does not answer: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LoginError(f"{url} does not answer as documented") from None
    if mode == "none":
        return None
    if not issuer or not client_id:
        raise NoProvider(
            f"{address.shown} names no provider to sign in at, so its operator hands out tokens: "
            "`codelab login --token` keeps one"
        )
    for text in (client_id, audience):
        if not isinstance(text, str) or len(text) > _MOST_CLIENT_ID_CHARS or not text.isprintable():
            raise LoginError(f"{url} does not answer as documented")
    return Client(checked_issuer(issuer), client_id, audience)


async def _confirm(address: Address, client: Client, expected: str) -> None:
    """Have the user confirm the issuer, unless they named it or signed in there before. Raises LoginError."""
    if expected and expected.rstrip("/") != client.issuer.rstrip("/"):
        raise LoginError(f"{address.shown} names the issuer {client.issuer}, not {safe_line(expected)}")
    try:
        before = await asyncio.to_thread(kept.find, address.origin)
    except LoginError:
        before = None
    if expected or (before is not None and (before.issuer, before.client_id) == (client.issuer, client.client_id)):
        return
    if before is not None and before.issuer:
        _say(f"CAUTION: you signed in at {before.issuer} before. The server names another issuer or client now.")
    _say(
        f"{address.shown} asks you to sign in at\n\n"
        f"    {client.host}    (issuer {client.issuer}, client {safe_line(client.client_id)})\n\n"
        f"{address.shown} will get the token. Go on only if you trust it, and know that host."
    )
    if not sys.stdin.isatty():
        raise LoginError(f"Nobody can confirm the issuer: name the one that you expect, --issuer {client.issuer}")
    from codelab_client.line_input import ask

    if (await ask(f"Sign in at {client.host}? [y/N] ")).strip().lower() not in ("y", "yes"):
        raise LoginError("Nobody was signed in")


async def _keep(address: Address, login: kept.Login) -> None:
    """Keep a login that the server does not refuse. Raises LoginError."""
    if address.rest_url:
        try:
            await Rest(address, login.token).get("/sessions?limit=1")
        except RestError as error:
            if error.status in (401, 403):
                raise LoginError(f"{address.shown} refuses the token: {safe_line(error)}") from None
            _say(f"It is not known whether the server takes the token: {safe_line(error)}")
    async with exclusively():
        place = await asyncio.to_thread(kept.keep, address.origin, login)
    user = safe_line(tokens.subject(login.token) or "a user without a name")
    _say(f"Signed in at {address.shown} as {user}. The token is in {place}.")
    if place == str(kept.file()):
        _say("This system has no keyring, so the file is not encrypted; only you can read it.")
    expires = tokens.expires_at(login.token)
    if expires is not None and not login.refresh_token:
        _say(f"It expires in {(expires - time.time()) / 60:.0f} minutes; sign in again then.")


async def _open(url: str) -> None:
    """Open the browser of this machine, where there is one, and show the address in any case."""
    await _show_address(url)
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        await asyncio.to_thread(webbrowser.open, url)


async def _show_address(url: str) -> None:
    _say(f"Sign in with a browser on this machine (elsewhere, use --device):\n\n{url}\n")


async def _show_code(url: str, code: str) -> None:
    _say(f"Open {url} on any device and type the code {safe_line(code, 40)}")


def _say(text: str) -> None:
    sys.stderr.write(f"{safe(text)}\n")
