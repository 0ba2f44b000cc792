"""The authorization code flow with PKCE: the provider sends the browser back to a port of this machine (RFC 8252)."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from codelab_client.login.errors import LoginError
from codelab_client.login.kept import Login
from codelab_client.login.provider import Provider
from codelab_client.login.redirect import Redirect
from codelab_client.safe_text import safe_line


async def sign_in(
    provider: Provider, show: Callable[[str], Awaitable[None]], port: int = 0, timeout_s: float = 600.0
) -> Login:
    """Sign the user in with their browser.

    show: shows the user the address to open. port: of this machine, where the provider sends the browser; 0 takes a
    free one. Raises LoginError.
    """
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    redirect = Redirect(state)
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
