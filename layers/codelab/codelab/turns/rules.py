"""Remembered approvals: which calls are decided without asking, because a human has decided so before.

A rule is about the calls of one agent and tool, in one session or in all of a user's. With a pattern it covers calls
whose paths match; without one, calls with the same paths, or, for tools that take none or can do anything, exactly the
same arguments. All of it is looked for in arguments that the tool has checked. What denies is read generously and wins;
what allows is read to the letter. Rules that cannot be read allow nothing: then every call asks.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.globs import matches
from codelab.protocol.incoming import Remember
from codelab.protocol.outgoing import RuleInfo, RuleList
from codelab.protocol.paths import workspace_path
from codelab.protocol.tools import Tool
from codelab.sessions.items import CallItem, dumps
from codelab.sessions.register import Register
from codelab.sessions.rules import KEYS, Effect, Rule, RuleBook, Scope
from codelab.turns.draft import Draft, NeedsItems
from codelab.turns.policy import RUNS_COMMANDS, needs_approval

#: The pattern that covers every call of its tool.
ANY = "**"
_COVERS_CHARS = 120


def judge(draft: Draft, call: CallItem, tool: Tool) -> Rule | None:
    """Decide whether `call`, whose arguments were checked, asks for approval. Returns the rule that denies it.

    Needs the rule books; a decision that uses an allowing rule of the user's relies on its book not having changed.
    """
    books = _books(draft)
    if books is None:
        call.requires_approval = True
        return None
    arguments = draft.value(call.arguments)
    call.requires_approval = needs_approval(tool, arguments, draft.settings, _autonomy(draft.register))
    found = [(book, rule) for book in books for rule in book.rules if _covers(rule, call.agent, tool, arguments)]
    for _, rule in found:
        if rule.effect == "deny":
            return rule
    if found and call.requires_approval:
        book, rule = found[0]  # a rule of the session's before one of the user's, which costs a condition
        call.requires_approval = False
        call.decision = {"decision": "approve", "rule_id": rule.rule_id, "at": draft.now}
        if book.scope == "user":
            draft.relies_on = book
    return None


def remember(draft: Draft, call: CallItem, tool: Tool, effect: Effect, wish: Remember) -> None:
    """Keep a human's decision about `call` as a rule. It counts for calls that are made from then on.

    Raises ProtocolError, and then nothing was decided: INVALID_ARGUMENTS, DATABASE_ERROR.
    """
    if effect == "allow" and tool.name in RUNS_COMMANDS:
        raise _refused(call, "remember", f"{tool.name} is asked about every time; approve it without remember")
    arguments = draft.value(call.effective_arguments)
    pattern = _pattern(call, tool, effect, wish.pattern) if wish.pattern else ""
    rule = Rule(
        rule_id="rule_" + draft.given.new_id(),
        agent=call.agent,
        tool=tool.name,
        effect=effect,
        pattern=pattern,
        digest="" if pattern else _digest(arguments, tool, effect),
        covers=pattern or _shown(arguments, tool),
        at=draft.now,
    )
    if not _covers(rule, call.agent, tool, arguments):
        raise _refused(call, "remember.pattern", f"{pattern!r} does not match this call itself")
    book = _book(draft, wish.scope)
    if any(_same(rule, known) for known in book.rules):
        return
    if len(book.rules) >= limits.RULES:
        raise _refused(call, "remember", f"{limits.RULES} rules are remembered already; revoke one of them first")
    _write(draft, book.changed((*book.rules, rule)))


def revoke(draft: Draft, rule_id: str) -> None:
    """Forget a rule. Raises ProtocolError INVALID_ARGUMENTS if there is none of that id, DATABASE_ERROR."""
    for book in (_book(draft, "session"), _book(draft, "user")):
        left = tuple(rule for rule in book.rules if rule.rule_id != rule_id)
        if len(left) < len(book.rules):
            _write(draft, book.changed(left))
            return
    raise ProtocolError(
        ErrorCode.INVALID_ARGUMENTS,
        "There is no such rule; it may have been revoked before",
        details={"field": "rule_id"},
    )


def listing(draft: Draft) -> RuleList:
    """All rules that count here. Raises ProtocolError DATABASE_ERROR."""
    books = [_book(draft, scope) for scope in KEYS]
    return RuleList(
        rules=[
            RuleInfo(
                rule_id=rule.rule_id,
                scope=book.scope,
                agent=rule.agent,
                tool_name=rule.tool,
                decision=rule.effect,
                pattern=rule.pattern or None,
                covers=rule.covers,
                created_at=rule.at,
            )
            for book in books
            for rule in book.rules
        ]
    )


# -- the books -------------------------------------------------------------------------------------------------------


def _books(draft: Draft) -> list[RuleBook] | None:
    """Both books as this transition leaves them, none older than the session knows of; None for what is no book."""
    changed = {item.scope: item for item in draft.puts if isinstance(item, RuleBook)}
    draft.need(KEYS.values())
    try:
        books = [changed.get(scope) or RuleBook.of(scope, draft.item(key)) for scope, key in KEYS.items()]
    except (ValueError, TypeError, KeyError):
        return None
    stale = [
        book.key()
        for book in books
        if book.version < draft.register.rules.get(book.scope, 0) and book.key() not in draft.given.fresh
    ]
    if stale:  # read before a change that this session was part of: a step reads them when it begins
        raise NeedsItems(stale)
    return books


def _book(draft: Draft, scope: Scope) -> RuleBook:
    books = _books(draft)
    if books is None:
        raise ProtocolError(ErrorCode.DATABASE_ERROR, "The remembered rules cannot be read", retryable=False)
    return next(book for book in books if book.scope == scope)


def _write(draft: Draft, book: RuleBook) -> None:
    draft.put(book)
    draft.register.rules[book.scope] = book.version


def _autonomy(register: Register) -> str:
    return str(register.settings.get("autonomy", "balanced"))


# -- what a rule covers ----------------------------------------------------------------------------------------------


def _covers(rule: Rule, agent: str, tool: Tool, arguments: Mapping[str, Any]) -> bool:
    if (rule.agent, rule.tool) != (agent, tool.name):
        return False
    if rule.effect == "allow" and tool.name in RUNS_COMMANDS:
        return False
    if not rule.pattern:
        return rule.digest == _digest(arguments, tool, rule.effect)
    if rule.pattern == ANY:
        return True
    if rule.effect == "deny":
        glob = _folded(rule.pattern)
        return any(
            matches(glob, path) or path == glob.removesuffix("/**") for path in map(_folded, tool.paths_of(arguments))
        )
    paths = _path_arguments(arguments, tool)
    # A backslash parts names on one system and is part of a name on another.
    return bool(paths) and all("\\" not in path and matches(rule.pattern, path) for _, path in paths)


def _pattern(call: CallItem, tool: Tool, effect: Effect, pattern: str) -> str:
    if pattern == ANY:
        return pattern
    takes_paths = bool(tool.paths) and tool.risk != "execute"
    if not takes_paths and not (effect == "deny" and tool.diffs):
        raise _refused(
            call, "remember.pattern", f"{tool.name} takes no paths: give no pattern, or {ANY!r} for any call"
        )
    try:
        return workspace_path(pattern, lenient=False)
    except ProtocolError as error:
        raise _refused(call, "remember.pattern", error.message) from None


def _path_arguments(arguments: Mapping[str, Any], tool: Tool) -> list[tuple[str, str]]:
    """(argument, path) of the paths that the call names beside those in diffs, which an IDE may read differently."""
    found = []
    for name in tool.paths:
        value = arguments.get(name, [])
        found += [(name, path) for path in (value if isinstance(value, list) else [value])]
    return found


def _digest(arguments: Mapping[str, Any], tool: Tool, effect: Effect) -> str:
    """What two calls have in common that are the same for a rule without a pattern."""
    paths = [] if tool.risk == "execute" else _path_arguments(arguments, tool)
    if effect == "deny":
        paths = [(name, _folded(path)) for name, path in paths]
    same: Any = paths or dict(arguments)
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()


def _shown(arguments: Mapping[str, Any], tool: Tool) -> str:
    paths = [] if tool.risk == "execute" else [path for _, path in _path_arguments(arguments, tool)]
    text = ", ".join(paths) or dumps(dict(arguments))
    return text if len(text) <= _COVERS_CHARS else text[: _COVERS_CHARS - 1] + "…"


def _folded(path: str) -> str:
    """The path as the most tolerant file system reads it."""
    names = unicodedata.normalize("NFC", path).casefold().replace("\\", "/").split("/")
    return "/".join(name.rstrip(". ") for name in names if name.strip(". "))


def _same(rule: Rule, other: Rule) -> bool:
    return (rule.agent, rule.tool, rule.effect, rule.pattern, rule.digest) == (
        other.agent,
        other.tool,
        other.effect,
        other.pattern,
        other.digest,
    )


def _refused(call: CallItem, where: str, message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, call_id=call.call_id, details={"field": where})
