"""PyJWT, in Lambda without `cryptography` if a shared secret signs the tokens.

Only published keys need `cryptography`, which takes a quarter of the authorizer's init. Without it PyJWT has only the
algorithms of shared secrets.
"""

import os
import sys

from codelab.config import settings

_spared = "cryptography" if "AWS_LAMBDA_RUNTIME_API" in os.environ and not settings().jwks_url else ""
if _spared and _spared not in sys.modules:
    sys.modules[_spared] = None  # type: ignore[assignment]  # an import raises ModuleNotFoundError, which PyJWT expects
    import jwt

    del sys.modules[_spared]
else:
    import jwt

__all__ = ["jwt"]
