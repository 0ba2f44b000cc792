"""PyJWT, in Lambda without `cryptography` if a shared secret signs the tokens.

Only published keys need `cryptography`, which takes a quarter of the authorizer's init. Without it PyJWT has only the
algorithms of shared secrets.
"""

import os
import sys
from functools import cache
from importlib import import_module
from types import ModuleType

from codelab.config import settings

_SPARED = "cryptography"


@cache
def pyjwt() -> ModuleType:
    """The module `jwt`. Call it at init, because this imports it."""
    if "AWS_LAMBDA_RUNTIME_API" not in os.environ or settings().jwks_url or _SPARED in sys.modules:
        return import_module("jwt")
    sys.modules[_SPARED] = None  # type: ignore[assignment]  # as if it were not installed, which PyJWT expects
    try:
        return import_module("jwt")
    finally:
        del sys.modules[_SPARED]
