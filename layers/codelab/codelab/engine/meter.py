"""Collects the usage of an invocation's Requests, and adds it to the user's counters when nobody waits."""

from collections.abc import Mapping

from codelab.engine.engine import Engine
from codelab.protocol.errors import ProtocolError
from codelab.sessions.spending import Spending
from codelab.turns import quotas


class Meter:
    """Counts one user's Requests in one invocation, including those whose answers were not used."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine = engine
        self._user = user
        self._asked = Spending()
        #: The user's plan, from the register.
        self.user_plan = ""

    def add(self, usage: Mapping[str, int], estimate: int = 0) -> None:
        """Add a Request that has ended, with its `usage`.

        `estimate` is its number of tokens if the provider reported none, for example because the answer broke off.
        """
        tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        self._asked += Spending(requests=usage.get("llm_calls", 0), tokens=tokens or estimate)

    def over_budget(self, item: Mapping[str, object] | None) -> ProtocolError | None:
        """The error that ends the turn if the user's tokens of the day are used up, else None.

        Counts the counters in `item` and what was added here since.
        """
        return quotas.out_of_budget(
            self._engine.settings, self.user_plan, item, self._asked.tokens, self._engine.clock()
        )

    def flush(self) -> None:
        """Count what was added since the last flush, in one call."""
        limits = self._engine.settings.limits_of(self.user_plan)
        self._engine.count(self._user, quotas.counted(limits, self._asked))
        self._asked = Spending()
