"""The environment of a system without quotas, and of one with the usual ones."""

from codelab.config import USUAL_LIMITS

UNLIMITED = {name.upper(): "0" for name in USUAL_LIMITS.model_dump()}
USUAL = dict.fromkeys(UNLIMITED, "")
