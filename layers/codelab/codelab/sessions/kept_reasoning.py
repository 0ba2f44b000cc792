"""The reasoning of a step's answer as it is stored: an item of its own, until the turn ends.

No caller, frame, fork or export shows it: providers want it back, and people read the thoughts that were streamed.
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from codelab.llm.past_reasoning import Reasoning
from codelab.llm.scanner import mend
from codelab.sessions import keys
from codelab.sessions.items import dumps


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """The reasoning of message `n`. Only the `model` that it is of, asked through the profile `provider`, gets it back.

    `ttl`, in seconds, is long after the turn: the item is gone then even if nobody has removed it.
    """

    #: The register's version guards it.
    replaces: ClassVar[bool] = True

    n: int
    model: str
    provider: str
    reasoning: Reasoning
    ttl: int

    def key(self) -> str:
        return keys.reasoning_key(self.n)

    def row(self) -> dict[str, Any]:
        row = {"sk": self.key(), "model": self.model, "provider": self.provider, "ttl": self.ttl}
        return {**row, "reasoning": self._json}

    @property
    def bytes(self) -> int:
        """The approximate size of the item."""
        return len(self._json.encode())

    @property
    def _json(self) -> str:
        """Mended, because a stream may cut a character in two, and DynamoDB takes no half of one."""
        return mend(dumps(self.reasoning.as_dict()))

    @classmethod
    def of(cls, item: dict[str, Any]) -> "ReasoningItem":
        n, reasoning = keys.reasoning_n(item["sk"]), Reasoning.of(json.loads(item["reasoning"]))
        return cls(n, item["model"], item["provider"], reasoning, item["ttl"])
