"""Approval rules as they are stored: one bounded item per session, and one per user."""

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
    """A human's decision about the calls of one tool, made about a call of `agent`.

    It covers calls whose paths match `pattern`, or, without a pattern, calls with the same `digest`. `covers` describes
    them for humans. `at` is in milliseconds.
    """

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
    """The rules of one scope. `version` counts changes; a change is only written over the version it was made from."""

    replaces: ClassVar[bool] = True

    scope: Scope
    version: int = 0
    rules: tuple[ApprovalRule, ...] = ()

    def key(self) -> str:
        return RULE_KEYS[self.scope]

    def changed(self, rules: tuple[ApprovalRule, ...]) -> Self:
        """A copy with these rules in place of the old ones, and the next version."""
        return replace(self, version=self.version + 1, rules=rules)

    def row(self) -> dict[str, Any]:
        return {"sk": self.key(), "version": self.version, "rules": dumps([asdict(rule) for rule in self.rules])}

    @classmethod
    def of(cls, scope: Scope, item: dict[str, Any] | None) -> Self:
        """The rule set in its item, empty for None. Raises ValueError, TypeError or KeyError for an invalid item."""
        if item is None:
            return cls(scope)
        return cls(scope, int(item["version"]), tuple(ApprovalRule(**rule) for rule in json.loads(item["rules"])))
