"""Remembered approvals as they are stored: one bounded item for a session, one for its user."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

from codelab.sessions import keys
from codelab.sessions.items import dumps

Scope = Literal["session", "user"]
Effect = Literal["allow", "deny"]

RULE_KEYS: dict[Scope, str] = {"session": keys.RULES, "user": keys.USER_RULES}


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """A decision about the calls of one tool, for `agent` the one in whose call it was made: those whose paths match
    `pattern`, or, without one, those with the same `digest`. `covers` says it for people."""

    rule_id: str
    agent: str
    tool: str
    effect: Effect
    pattern: str
    digest: str
    covers: str
    at: int


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """The rules of one scope. `version` counts the changes; a change is written only over what it was made from."""

    replaces: ClassVar[bool] = True

    scope: Scope
    version: int = 0
    rules: tuple[ApprovalRule, ...] = ()

    def key(self) -> str:
        return RULE_KEYS[self.scope]

    def changed(self, rules: tuple[ApprovalRule, ...]) -> Self:
        return replace(self, version=self.version + 1, rules=rules)

    def attributes(self) -> dict[str, Any]:
        return {"version": self.version, "rules": dumps([asdict(rule) for rule in self.rules])}

    @classmethod
    def of(cls, scope: Scope, item: dict[str, Any] | None) -> Self:
        """The rule_set in its item. Raises ValueError, TypeError or KeyError for one that cannot be understood."""
        if item is None:
            return cls(scope)
        return cls(scope, int(item["version"]), tuple(ApprovalRule(**rule) for rule in json.loads(item["rules"])))
