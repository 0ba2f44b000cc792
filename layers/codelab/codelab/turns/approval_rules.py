"""Approval rules: a human's earlier decisions, which decide later calls without asking.

A rule covers calls of one tool, in one session or in all of a user's sessions. An allowing rule covers the calls of one
agent, a denying rule those of all agents. With a pattern it covers calls whose paths match; without one, calls with the
same paths or, if the tool takes no paths or executes something, exactly the same arguments. Rules are compared with
arguments that the tool has checked. Denying rules are matched generously and win. Allowing rules are matched literally;
of the calls that always need approval they allow only remembered commands. If the rules cannot be read, every call
needs approval.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.globs import matches
from codelab.protocol.incoming import Remember
from codelab.protocol.modes import acting_mode
from codelab.protocol.outgoing import Remembrance, RuleInfo, RuleList
from codelab.protocol.paths import checked_path
from codelab.protocol.tools import Tool
from codelab.sessions.approval_rules import RULE_KEYS, ApprovalRule, ApprovalRules, Effect, Scope
from codelab.sessions.items import CallItem, dumps
from codelab.turns import commands
from codelab.turns.draft import Draft, NeedsItems
from codelab.turns.policy import always_asks, asks_as_text, needs_approval

#: The pattern that covers every call of its tool.
ANY_PATH = "**"
#: Characters of what a rule covers, as people see it. A longer text is not cut, which would hide the rest, but named.
_COVERS_CHARS = 300


def apply(
    draft: Draft, call: CallItem, tool: Tool, *, is_only_change: bool = True, is_text: bool = False
) -> ApprovalRule | None:
    """Decide whether `call`, whose arguments were checked, needs approval. Returns the rule that denies it, if any.

    `is_only_change`: no other call of the same answer may change what a remembered command depends on. `is_text`: the
    model has written the call as text; then only a denying rule decides without a human. Needs both rule sets. If one
    of the user's rules allows the call, the transition relies on that rule set not having changed.
    """
    rule_sets = _rule_sets(draft)
    if rule_sets is None:
        call.requires_approval = True
        return None
    arguments = draft.value(call.arguments)
    call.requires_approval = needs_approval(tool, arguments, draft.settings, acting_mode(draft.register.settings))
    matches = [
        (rule_set, rule)
        for rule_set in rule_sets
        for rule in rule_set.rules
        if _covers(rule, call.agent, tool, arguments)
    ]
    for _, rule in matches:
        if rule.effect == "deny":
            return rule
    if is_text and asks_as_text(tool, arguments):
        call.requires_approval = True
        return None
    is_command = always_asks(tool, arguments) and not tool.host_of
    if is_command:
        matches = [
            match for match in matches if is_only_change and commands.holds(draft, match[1].rule_id, tool, arguments)
        ]
    if matches and call.requires_approval:
        rule_set, rule = matches[0]  # the session's rules first: a user's rule costs a condition
        call.requires_approval = False
        call.decision = {"decision": "approve", "rule_id": rule.rule_id, "at": draft.now}
        if is_command:
            commands.begin(draft, call, rule.rule_id)
        if rule_set.scope == "user":
            draft.relies_on = rule_set
    return None


def offer(draft: Draft, tool: Tool, arguments: Mapping[str, Any], executor: str) -> Remembrance | None:
    """The rule that an approval of this call may become, without a pattern; None if it cannot be remembered.

    `executor` is the id of the connection that executes the call.
    """
    if tool.host_of:
        host = tool.host(arguments)
        return Remembrance(rule=host, scopes=["session", "user"]) if host else None
    if not always_asks(tool, arguments):
        return Remembrance(rule=_coverage(arguments, tool), scopes=["session", "user"])
    if not commands.may_be_remembered(draft, tool, arguments, executor):
        return None
    return Remembrance(rule=_command(arguments), scopes=["session"])


def remember(draft: Draft, call: CallItem, tool: Tool, effect: Effect, request: Remember, executor: str) -> None:
    """Remember a human's decision about `call` as a rule for later calls.

    Raises ProtocolError INVALID_ARGUMENTS or DATABASE_ERROR; then nothing is decided.
    """
    arguments = draft.value(call.effective_arguments)
    if effect == "allow" and tool.host_of:
        if not tool.host(arguments):
            raise _invalid(call, "remember", "Such an address cannot be remembered; approve it without remember")
        if request.pattern is not None:
            raise _invalid(call, "remember.pattern", "A host is remembered exactly; omit pattern")
    is_command = effect == "allow" and always_asks(tool, arguments) and not tool.host_of
    if is_command:
        remembrance = offer(draft, tool, arguments, executor)
        if remembrance is None:
            raise _invalid(call, "remember", "Such calls always need approval; approve it without remember")
        if request.scope not in remembrance.scopes:
            raise _invalid(call, "remember.scope", "A command can only be remembered for the session")
        if request.pattern is not None:
            raise _invalid(call, "remember.pattern", "A command is remembered exactly; omit pattern")
    pattern = _pattern(call, tool, effect, request.pattern) if request.pattern else ""
    rule = ApprovalRule(
        rule_id="rule_" + draft.inputs.new_id(),
        agent=call.agent,
        tool=tool.name,
        effect=effect,
        pattern=pattern,
        digest="" if pattern else _digest(arguments, tool, effect),
        covers=_command(arguments) if is_command else pattern or _coverage(arguments, tool),
        at=draft.now,
    )
    if not _covers(rule, call.agent, tool, arguments):
        raise _invalid(call, "remember.pattern", f"{pattern!r} does not match this call")
    rule_set = _rule_set(draft, request.scope)
    existing_rules = tuple(
        existing_rule for existing_rule in rule_set.rules if not (is_command and _allows_a_command(existing_rule))
    )  # the new rule replaces it
    if any(_is_same_rule(rule, existing_rule) for existing_rule in existing_rules):
        return
    if len(existing_rules) >= limits.RULES:
        raise _invalid(call, "remember", f"There are already {limits.RULES} rules; revoke one first")
    _write(draft, rule_set.changed((*existing_rules, rule)))
    if is_command:
        commands.begin(draft, call, rule.rule_id)


def revoke(draft: Draft, rule_id: str) -> None:
    """Remove a rule. Raises ProtocolError INVALID_ARGUMENTS for an unknown id, DATABASE_ERROR."""
    for rule_set in (_rule_set(draft, "session"), _rule_set(draft, "user")):
        remaining_rules = tuple(rule for rule in rule_set.rules if rule.rule_id != rule_id)
        if len(remaining_rules) < len(rule_set.rules):
            _write(draft, rule_set.changed(remaining_rules))
            return
    raise ProtocolError(
        ErrorCode.INVALID_ARGUMENTS,
        "Unknown rule; it may have been revoked",
        details={"field": "rule_id"},
    )


def listing(draft: Draft) -> RuleList:
    """All valid rules; of those that allow commands, only the one in force. Raises ProtocolError DATABASE_ERROR."""
    rule_sets = [_rule_set(draft, scope) for scope in RULE_KEYS]
    return RuleList(
        rules=[
            RuleInfo(
                rule_id=rule.rule_id,
                scope=rule_set.scope,
                agent=rule.agent,
                tool_name=rule.tool,
                decision=rule.effect,
                pattern=rule.pattern or None,
                covers=rule.covers,
                created_at=rule.at,
            )
            for rule_set in rule_sets
            for rule in rule_set.rules
            if not _allows_a_command(rule) or rule.rule_id == draft.register.command_rule
        ]
    )


# -- the rule sets ---------------------------------------------------------------------------------------------------


def _rule_sets(draft: Draft) -> list[ApprovalRules] | None:
    """Both rule sets with the draft's changes, no older than the register knows; None if one is unreadable."""
    draft_sets = {item.scope: item for item in draft.puts if isinstance(item, ApprovalRules)}
    draft.need(RULE_KEYS.values())
    try:
        rule_sets = [
            draft_sets.get(scope) or ApprovalRules.of(scope, draft.item(key)) for scope, key in RULE_KEYS.items()
        ]
    except (ValueError, TypeError, KeyError):
        return None
    stale_keys = [
        rule_set.key()
        for rule_set in rule_sets
        if rule_set.version < draft.register.rule_versions.get(rule_set.scope, 0)
        and rule_set.key() not in draft.inputs.fresh_keys
    ]
    if stale_keys:  # a step reads them when it begins, and this session has changed them since
        raise NeedsItems(stale_keys, draft.register.session_id)
    return rule_sets


def _rule_set(draft: Draft, scope: Scope) -> ApprovalRules:
    rule_sets = _rule_sets(draft)
    if rule_sets is None:
        raise ProtocolError(ErrorCode.DATABASE_ERROR, "Cannot read the remembered rules", retryable=False)
    return next(rule_set for rule_set in rule_sets if rule_set.scope == scope)


def _write(draft: Draft, rule_set: ApprovalRules) -> None:
    draft.put(rule_set)
    draft.register.rule_versions[rule_set.scope] = rule_set.version


# -- what a rule covers ----------------------------------------------------------------------------------------------


def _covers(rule: ApprovalRule, agent: str, tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Does the rule cover this call? The caller checks whether it may allow one that always needs approval."""
    if rule.effect == "deny":
        if rule.tool.casefold() != tool.name.casefold():
            return False
    elif (rule.agent, rule.tool) != (agent, tool.name):
        return False
    if not rule.pattern:
        return rule.digest in (_digest(arguments, tool, rule.effect), _written_digest(arguments, tool, rule.effect))
    if rule.pattern == ANY_PATH:
        return True
    if rule.effect == "deny":
        glob = _folded(rule.pattern)
        return any(
            matches(glob, path) or path == glob.removesuffix("/**") for path in map(_folded, tool.paths_of(arguments))
        )
    paths = _path_arguments(arguments, tool)
    # A backslash separates names on one system and is part of a name on another.
    return bool(paths) and all("\\" not in path and matches(rule.pattern, path) for _, path in paths)


def _pattern(call: CallItem, tool: Tool, effect: Effect, pattern: str) -> str:
    if pattern == ANY_PATH:
        return pattern
    takes_paths = bool(tool.paths) and tool.risk != "execute"
    if not takes_paths and not (effect == "deny" and tool.diffs):
        raise _invalid(
            call, "remember.pattern", f"{tool.name} has no paths: omit pattern, or use {ANY_PATH!r} for every call"
        )
    try:
        return checked_path(pattern, lenient=False)
    except ProtocolError as error:
        raise _invalid(call, "remember.pattern", error.message) from None


def _path_arguments(arguments: Mapping[str, Any], tool: Tool) -> list[tuple[str, str]]:
    """(argument, path) of the call's paths, except those in diffs, which an IDE may read differently."""
    pairs = []
    for name in tool.paths:
        value = arguments.get(name, [])
        pairs += [(name, path) for path in (value if isinstance(value, list) else [value])]
    return pairs


def _digest(arguments: Mapping[str, Any], tool: Tool, effect: Effect) -> str:
    """The digest by which a rule without a pattern recognises the same call."""
    if tool.host_of and (host := tool.host(arguments)):
        return _sha256([tool.host_of, host])
    if tool.name not in commands.RUNNING:
        return _written_digest(arguments, tool, effect)
    words, cwd = commands.words(arguments)
    return _sha256([words, (_folded(cwd) or ".") if effect == "deny" else cwd])


def _written_digest(arguments: Mapping[str, Any], tool: Tool, effect: Effect) -> str:
    """The same for the arguments as written; older denials of commands have this digest."""
    paths = [] if tool.risk == "execute" else _path_arguments(arguments, tool)
    if effect == "deny":
        paths = [(name, _folded(path)) for name, path in paths]
    content: Any = paths or dict(arguments)
    return _sha256(content)


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _command(arguments: Mapping[str, Any]) -> str:
    """The whole command for humans, who must see what they allow."""
    words, cwd = commands.words(arguments)
    return " ".join(words) + ("" if cwd == "." else f" (in {cwd})")


def _allows_a_command(rule: ApprovalRule) -> bool:
    return rule.effect == "allow" and rule.tool in commands.RUNNING


def _coverage(arguments: Mapping[str, Any], tool: Tool) -> str:
    if tool.host_of and (host := tool.host(arguments)):
        return host
    paths = [] if tool.risk == "execute" else [path for _, path in _path_arguments(arguments, tool)]
    text = ", ".join(paths) or dumps(dict(arguments))
    if len(text) <= _COVERS_CHARS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"exactly these {'paths' if paths else 'arguments'} ({len(text):,} characters, sha256 {digest[:16]})"


def _folded(path: str) -> str:
    """The path as the most tolerant file system would read it."""
    names = unicodedata.normalize("NFC", path).casefold().replace("\\", "/").split("/")
    return "/".join(name.rstrip(". ") for name in names if name.strip(". "))


def _is_same_rule(rule: ApprovalRule, other: ApprovalRule) -> bool:
    return replace(rule, rule_id=other.rule_id, covers=other.covers, at=other.at) == other


def _invalid(call: CallItem, field: str, message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, call_id=call.call_id, details={"field": field})
