"""The device flow (RFC 8628): the user signs in on any device, and types a code there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from codelab_client.login.errors import LoginError
from codelab_client.login.kept import Login
from codelab_client.login.provider import Provider, Refusal

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LONGEST_S = 1_800.0


async def sign_in(
    provider: Provider,
    show: Callable[[str, str], Awaitable[None]],
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> Login:
    """Sign the user in on another device. show: shows the address to open and the code to type. Raises LoginError."""
    parameters = {"scope": provider.scope}
    if provider.client.audience:
        parameters["audience"] = provider.client.audience
    authorization = await provider.post("device_authorization_endpoint", **parameters)
    device_code, user_code = authorization.get("device_code"), authorization.get("user_code")
    if not isinstance(device_code, str) or not isinstance(user_code, str):
        raise LoginError(f"{provider.client.host} does not answer as documented: it gave no code")
    await show(provider.checked(authorization.get("verification_uri"), "verification_uri"), user_code)
    pause, remaining = (
        _seconds(authorization.get("interval"), 5.0),
        _seconds(authorization.get("expires_in"), _LONGEST_S),
    )
    while remaining > 0:
        await sleep(pause)
        remaining -= pause
        try:
            tokens = await provider.post("token_endpoint", grant_type=_GRANT, device_code=device_code)
        except Refusal as refusal:
            if refusal.code == "slow_down":
                pause += 5
            elif refusal.code != "authorization_pending":
                raise
            continue
        return provider.login(tokens)
    raise LoginError("The code has expired before anybody signed in with it")


def _seconds(value: object, default: float) -> float:
    """A number of seconds that a provider names; at least one, so that it is never asked without a pause."""
    return min(max(float(value), 1.0), _LONGEST_S) if isinstance(value, int | float) else default
