"""Tokens as an identity provider would sign them with the stack's secret, and as no provider would."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from tests.functions.system import JWT_SECRET


def signed(**claims: Any) -> str:
    """A good token of ann but for `claims`; None leaves one out. Signed by hand: a library refuses some of these."""
    now = int(time.time())
    body = {"sub": "ann", "iat": now, "exp": now + 600, **claims}
    return raw(json.dumps({name: value for name, value in body.items() if value is not None}))


def raw(body: str, header: str = '{"alg":"HS256","typ":"JWT"}') -> str:
    """Whatever the body and the header are, with the right signature."""
    text = f"{_part(header)}.{_part(body)}"
    return f"{text}.{_encoded(hmac.new(JWT_SECRET.encode(), text.encode(), hashlib.sha256).digest())}"


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _part(text: str) -> str:
    return _encoded(text.encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
