"""Collects the usage of an invocation's Requests: for the user's counters, when nobody waits, and for metrics."""

from collections.abc import Mapping

from codelab.engine.engine import Engine
from codelab.observability import metrics, record
from codelab.protocol.errors import ProtocolError
from codelab.sessions.spending import Spending
from codelab.turns import quotas


class Meter:
    """Counts one user's Requests in one invocation, including those whose answers were not used."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine = engine
        self._user = user
        #: Not counted yet.
        self._spending = Spending()
        #: Not logged yet; of the first tokens, the milliseconds from the start of each step.
        self._requests = self._errors = self._tokens = 0
        self._first_tokens: list[int] = []
        #: The user's plan, from the register.
        self.user_plan = ""

    def add(self, usage: Mapping[str, int], estimate: int = 0, *, is_failure: bool = False) -> None:
        """Add a Request that has ended, with its `usage`; `is_failure` if the model gave no answer.

        `estimate` is its number of tokens if the provider reported none, for example because the answer broke off.
        """
        tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0) or estimate
        self._spending += Spending(requests=usage.get("llm_calls", 0), tokens=tokens)
        self._requests, self._errors, self._tokens = (
            self._requests + 1,
            self._errors + is_failure,
            self._tokens + tokens,
        )

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
        """Count what was added since the last flush, in one call, and log it in one line."""
        if self._requests:
            first_tokens = {"FirstTokenMs": self._first_tokens} if self._first_tokens else {}
            values = metrics(
                ModelRequests=self._requests, ModelErrors=self._errors, Tokens=self._tokens, **first_tokens
            )
            record("model asked", **values)
            self._requests = self._errors = self._tokens = 0
            self._first_tokens = []
        limits = self._engine.settings.limits[self.user_plan]
        self._engine.count(self._user, quotas.limited_amounts(limits, self._spending))
        self._spending = Spending()
