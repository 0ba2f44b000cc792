"""The authorization code flow with PKCE: the provider sends the browser back to a port of this machine (RFC 8252)."""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlencode, urlsplit

from codelab_client.login.errors import LoginError
from codelab_client.login.kept import Login
from codelab_client.login.provider import Provider
from codelab_client.safe_text import safe_line

_HEAD = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n"
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n\r\n"
)
_REQUEST_S = 10.0
_MOST_HEADERS = 100


async def sign_in(
    provider: Provider, show: Callable[[str], Awaitable[None]], port: int = 0, timeout_s: float = 600.0
) -> Login:
    """Sign the user in with their browser.

    show: shows the user the address to open. port: of this machine, where the provider sends the browser; 0 takes a
    free one. Raises LoginError.
    """
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    redirect = _Redirect(state)
    try:
        server = await asyncio.start_server(redirect.serve, "127.0.0.1", port)
    except (OSError, OverflowError) as error:
        raise LoginError(f"Port {port} of this machine cannot be used: {error}") from None
    async with server:
        redirect.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        redirect_uri = f"http://{redirect.host}/"
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": provider.client.client_id,
            "redirect_uri": redirect_uri,
            "scope": provider.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if provider.client.audience:
            query["audience"] = provider.client.audience
        endpoint = provider.endpoint("authorization_endpoint")
        await show(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}")
        try:
            answer = await asyncio.wait_for(redirect.answer, timeout_s)
        except TimeoutError:
            raise LoginError(f"Nobody signed in within {timeout_s / 60:.0f} minutes") from None
    # RFC 9207: the code of one provider must not be given to another.
    if ("iss" in answer or provider.names_itself) and answer.get("iss") != provider.client.issuer:
        raise LoginError(f"The answer is not of {provider.client.host}, but of {safe_line(answer.get('iss'))}")
    if "code" not in answer:
        reason = f"{safe_line(answer.get('error'))} {safe_line(answer.get('error_description', ''))}".rstrip()
        raise LoginError(f"{provider.client.host} refused: {reason}")
    token_response = await provider.post(
        "token_endpoint",
        grant_type="authorization_code",
        code=answer["code"],
        redirect_uri=redirect_uri,
        code_verifier=verifier,
    )
    return provider.login(token_response, nonce)


class _Redirect:
    """Takes the browser that comes back, and nobody else: any page can send a browser to this port."""

    def __init__(self, state: str) -> None:
        self.host = ""
        self.answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._state = state

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                status, text = await self._status(reader)
                body = f"<!doctype html><title>codelab</title><p>{text}".encode()
                writer.write(_HEAD.format(status=status, length=len(body)).encode() + body)
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _status(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        method, _, remainder = (await reader.readline()).decode("ascii", "replace").partition(" ")
        target = urlsplit(remainder.partition(" ")[0])
        hosts = []
        for _ in range(_MOST_HEADERS):
            name, _, value = (await reader.readline()).decode("ascii", "replace").partition(":")
            if not value:
                break
            if name.lower() == "host":
                hosts.append(value.strip())
        if method != "GET" or target.path != "/" or hosts != [self.host]:
            return "404 Not Found", "There is nothing here."
        query = parse_qs(target.query, keep_blank_values=True)
        answer = {name: values[0] for name, values in query.items() if len(values) == 1}
        if not hmac.compare_digest(answer.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This is not the login that codelab waits for."
        if not self.answer.done():
            self.answer.set_result(answer)
        return "200 OK", "codelab has the answer. You can close this page."
