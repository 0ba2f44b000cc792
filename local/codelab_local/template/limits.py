"""The limits of a stage and of its routes, as a template sets them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limit:
    """rate: requests a second. burst: requests at once."""

    rate: float
    burst: float


def limit_of(settings: Mapping[str, Any] | None) -> Limit | None:
    """The limit in a stage's route settings; None without one. Of two values, a missing one follows the other."""
    values = {name.lower(): value for name, value in (settings or {}).items()}
    rate, burst = values.get("throttlingratelimit"), values.get("throttlingburstlimit")
    if rate is None and burst is None:
        return None
    return Limit(float(rate if rate is not None else burst or 0), float(burst if burst is not None else rate or 0))
