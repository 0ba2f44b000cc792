"""Collects the usage of an invocation's Requests: for the user's counters, when nobody waits, and for metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from codelab.engine.engine import Engine
from codelab.llm.errors import ModelError, RequestError
from codelab.llm.outcome import Result
from codelab.observability import model_metrics, record
from codelab.protocol.errors import ProtocolError
from codelab.sessions.spending import Spending
from codelab.turns import quotas

#: Costs are counted in billionths of a dollar.
_NANO = 1_000_000_000


class Ending(NamedTuple):
    """How a Request ended: whether the model gave no answer, how many were invalid, how many calls repaired one."""

    is_failure: bool = False
    invalid_answers: int = 0
    repairs: int = 0

    @classmethod
    def of(cls, outcome: Result | RequestError) -> Ending:
        """The ending with this result or error. It does not keep the error."""
        if isinstance(outcome, Result):
            return cls(invalid_answers=outcome.repairs, repairs=outcome.repairs)
        if isinstance(outcome, ModelError):
            return cls(True, outcome.invalid_answers, outcome.repairs)
        return cls(True)


@dataclass
class RequestCounts:
    """What was asked of one model and is not logged yet. `cost_nano_usd` is None while no price is known."""

    requests: int = 0
    errors: int = 0
    invalid_answers: int = 0
    repairs: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_nano_usd: int | None = None

    def add(self, usage: Mapping[str, int], tokens: int, ending: Ending) -> None:
        """Add a Request with its `usage` (see `usage_amounts`) and its tokens, which may be an estimate."""
        self.requests += 1
        self.errors += ending.is_failure
        self.invalid_answers += ending.invalid_answers
        self.repairs += ending.repairs
        self.tokens += tokens
        self.prompt_tokens += usage.get("prompt_tokens", 0)
        self.cached_tokens += usage.get("cached_tokens", 0)
        self.cache_write_tokens += usage.get("cache_write_tokens", 0)
        if "cost_nano_usd" in usage:
            self.cost_nano_usd = (self.cost_nano_usd or 0) + usage["cost_nano_usd"]

    def log(self, model: str, first_tokens: Sequence[int], **ids: str) -> None:
        """Write one line with all of it, and with the `first_tokens` (ms), which names `ids` too."""
        values = model_metrics(
            model,
            ModelRequests=self.requests,
            ModelErrors=self.errors,
            InvalidAnswers=self.invalid_answers,
            ModelRepairs=self.repairs,
            Tokens=self.tokens,
            PromptTokens=self.prompt_tokens,
            CachedTokens=self.cached_tokens,
            CacheWriteTokens=[self.cache_write_tokens] if self.cache_write_tokens else [],
            CostUsd=[] if self.cost_nano_usd is None else [self.cost_nano_usd / _NANO],
            FirstTokenMs=first_tokens,
        )
        record("model asked", **ids, **values)


class Meter:
    """Counts one user's Requests in one invocation, including those whose answers were not used."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine = engine
        self._user = user
        #: Not counted yet.
        self._spending = Spending()
        #: Not logged yet: by model, and of the first tokens the milliseconds from the start of each step.
        self._counts: dict[str, RequestCounts] = {}
        self._first_tokens: list[int] = []
        #: The user's plan, from the register.
        self.user_plan = ""

    def add(self, usage: Mapping[str, int], ending: Ending, estimate: int = 0, *, model: str) -> None:
        """Add a Request to `model` that has ended, with its `usage`.

        `estimate` is its number of tokens if the provider reported none, for example because the answer broke off.
        """
        tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0) or estimate
        self._spending += Spending(requests=usage.get("llm_calls", 0), tokens=tokens)
        self._counts.setdefault(model, RequestCounts()).add(usage, tokens, ending)

    def add_first_token(self, delay_ms: int) -> None:
        """Add the time from the start of a step to its first text."""
        self._first_tokens.append(delay_ms)

    def over_budget(self, item: Mapping[str, object] | None) -> ProtocolError | None:
        """The error that ends the turn if the user's tokens of the day are used up, else None.

        Counts the counters in `item` and what was added here since.
        """
        return quotas.out_of_budget(
            self._engine.settings, self.user_plan, item, self._spending.tokens, self._engine.clock()
        )

    def flush(self) -> None:
        """Count what was added since the last flush, in one call, and log it in a line for each model."""
        for model, counts in self._counts.items():
            counts.log(model, self._first_tokens)
            self._first_tokens = []
        self._counts = {}
        limits = self._engine.settings.limits[self.user_plan]
        self._engine.count(self._user, quotas.limited_amounts(limits, self._spending))
        self._spending = Spending()
