"""Tokens signed with the stack's secret, valid and invalid."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from tests.functions.system import JWT_SECRET


def signed(**claims: Any) -> str:
    """A valid token of ann, changed by `claims`; None omits a claim. Signed by hand, because libraries refuse some."""
    now = int(time.time())
    body = {"sub": "ann", "iat": now, "exp": now + 600, **claims}
    return raw(json.dumps({name: value for name, value in body.items() if value is not None}))


def raw(body: str, header: str = '{"alg":"HS256","typ":"JWT"}') -> str:
    """Any header and body with a valid signature."""
    text = f"{_part(header)}.{_part(body)}"
    return f"{text}.{_encoded(hmac.new(JWT_SECRET.encode(), text.encode(), hashlib.sha256).digest())}"


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _part(text: str) -> str:
    return _encoded(text.encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
