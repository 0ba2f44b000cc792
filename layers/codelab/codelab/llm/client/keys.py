"""The API key of a transport: fixed, or asked for at each call and renewed once it is rejected."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from codelab.llm.client.answers import rejects_key
from codelab.llm.errors import TransportError

ApiKey = str | Callable[[], str]
#: Signs a request in place of a key: method, path below the base URL, headers and body, to all headers but the Host.
Sign = Callable[[str, str, Mapping[str, str], bytes], Mapping[str, str]]

#: Where a provider takes its key.
KeyHeader = Literal["Authorization", "api-key", "x-api-key"]
#: A JSON Web Token, such as Microsoft Entra's: Azure takes it as a bearer, and only keys in a header of their own.
_JWT = re.compile(r"ey[\w-]+\.ey[\w-]+\.[\w-]*")

_Answer = TypeVar("_Answer")


def key_headers(key: str, header: KeyHeader) -> dict[str, str]:
    """The header that carries a key."""
    return {"Authorization": f"Bearer {key}"} if header == "Authorization" or _JWT.fullmatch(key) else {header: key}


def keyed(api_key: ApiKey, ask: Callable[[str], _Answer], check: Callable[[], None] = lambda: None) -> _Answer:
    """Call `ask` with the key; renew a rejected key once, if it can be renewed.

    A key can be renewed if its function has a method `renew(rejected)`, which returns whether there is another key now.
    `ask` raises TransportError; `check` may raise before the second call.
    """
    if isinstance(api_key, str):
        return ask(api_key or "none")
    key = api_key()
    try:
        return ask(key)
    except TransportError as error:
        renew: Callable[[str], bool] | None = getattr(api_key, "renew", None)
        if renew is None or not rejects_key(error) or not renew(key):
            raise
    check()
    return ask(api_key())
