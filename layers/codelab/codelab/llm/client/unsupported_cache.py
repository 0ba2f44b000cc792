"""What the providers of this process do not support, so that no Request asks for it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

#: How long a feature is remembered, in seconds: providers and models change, and an error may have been misread.
KEPT_S = 3_600


class UnsupportedStore(Protocol):
    """Where unsupported features outlive the process: a table, a file, a cache."""

    def load(self, base_url: str, model: str) -> Mapping[str, float]:
        """The unsupported features of a model, and when each is to be forgotten, in seconds of the cache's clock.

        Called once per process and model, by a lazy cache after the first refusal.
        """

    def save(self, base_url: str, model: str, unsupported: frozenset[str]) -> None:
        """Save the whole set; called when it has grown."""


class UnsupportedFeatures:
    """Unsupported features by base URL and model, each remembered for `kept_s` seconds of `clock`.

    lazy: read the store only after the first refusal, so that a model that supports everything costs no read. Threads
    may share it.
    """

    def __init__(
        self,
        store: UnsupportedStore | None = None,
        *,
        kept_s: float = KEPT_S,
        clock: Callable[[], float] = time.time,
        lazy: bool = False,
    ) -> None:
        self._store = store
        self._lazy = lazy
        self._kept_s = kept_s
        self._clock = clock
        self._until: dict[tuple[str, str], dict[str, float]] = {}

    def of(self, base_url: str, model: str) -> frozenset[str]:
        """The features that the model does not support, as far as is known."""
        now = self._clock()
        expiries = self._until.get((base_url, model))
        if expiries is None:
            stored_expiries = self._store.load(base_url, model) if self._store and not self._lazy else {}
            expiries = self._until.setdefault((base_url, model), dict(stored_expiries))
        # A copy, because another thread may add a feature meanwhile.
        return (
            frozenset(feature for feature, expires_at in expiries.copy().items() if expires_at > now)
            if expiries
            else frozenset()
        )

    def add(self, base_url: str, model: str, feature: str) -> None:
        """Remember a feature, and save it in the store."""
        features = self.of(base_url, model)
        if self._store and self._lazy and not self._until[base_url, model]:
            # Added to what is there, because another thread may add a feature meanwhile.
            self._until[base_url, model].update(self._store.load(base_url, model))
            features = self.of(base_url, model)
        if feature in features:
            return
        self._until[base_url, model][feature] = self._clock() + self._kept_s
        if self._store:
            self._store.save(base_url, model, features | {feature})
