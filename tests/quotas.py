"""The environment of a system without quotas, and of one with the usual ones."""

from dataclasses import asdict

from codelab.config import USUAL_LIMITS

UNLIMITED = {name.upper(): "0" for name in asdict(USUAL_LIMITS)}
USUAL = dict.fromkeys(UNLIMITED, "")
