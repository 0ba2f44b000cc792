"""What the model was asked, on its way to the user's counters: told when nobody waits any more."""

from collections.abc import Mapping

from codelab.engine.engine import Engine
from codelab.protocol.errors import ProtocolError
from codelab.sessions.spending import Spending
from codelab.turns import quotas


class Meter:
    """Of one invocation, for one user. Requests whose answers nobody wanted in the end are counted as well."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine = engine
        self._user = user
        self._asked = Spending()
        #: The plan of the user who began the turn.
        self.user_plan = ""

    def add(self, usage: Mapping[str, int], estimate: int = 0) -> None:
        """A Request has ended. `usage` is what it has cost; `estimate` are its tokens where the provider said nothing,
        as of an answer that was broken off."""
        tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        self._asked += Spending(requests=usage.get("llm_calls", 0), tokens=tokens or estimate)

    def over_budget(self, item: Mapping[str, object] | None) -> ProtocolError | None:
        """What ends a turn whose user has no tokens left of the day, by the counters in `item` and what was asked
        since; None if there are some."""
        return quotas.out_of_budget(
            self._engine.settings, self.user_plan, item, self._asked.tokens, self._engine.clock()
        )

    def flush(self) -> None:
        """Have counted what was asked since the last time, in one call."""
        limits = self._engine.settings.limits_of(self.user_plan)
        self._engine.count(self._user, quotas.counted(limits, self._asked))
        self._asked = Spending()
