"""What this client's user has decided in a session: the calls, as they were shown, and what else may run unasked.

A released call (`requires_approval: false`) is compared with that, because the server may be broken or hostile, and
because others decide too: another window, a phone, a program over HTTP, a rule, a mode.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from codelab_client.execution import DeclaredTool
from codelab_client.session.elsewhere import Elsewhere
from codelab_client.session.events import ToolCall
from codelab_client.session.journal import Journal
from codelab_client.tools import globs, risks

#: In place of a digest: this client rejected the call.
_REJECTED = "rejected"
#: The user wants the mode `autonomous`; the word is that of earlier journals.
_AUTONOMOUS = json.dumps(["autonomy"])
#: Characters of arguments that a rule's text quotes; of longer ones it has a digest.
_DESCRIBED_CHARS = 300


class Verdict(Enum):
    """Whether a released call may be executed."""

    RUNS = auto()
    CHANGED = auto()  # it is not the call that this client's user has approved
    REJECTED = auto()  # this client's user has rejected it
    ELSEWHERE = auto()  # it needs a decision, and nobody has made it here


class Decisions:
    """The decisions of one session. journal: keeps them, so that they outlive this process.

    elsewhere: whether calls that were decided elsewhere may run. own: the client's own tools.
    """

    def __init__(
        self, journal: Journal, elsewhere: Elsewhere, own: Callable[[], Sequence[DeclaredTool]] = lambda: ()
    ) -> None:
        self._journal, self._elsewhere, self._own = journal, elsewhere, own
        self._tools: dict[str, str] = {}  # of the server's rules, by id
        self._unsure: dict[str, str] = {}  # what was allowed with a call's decision, which the server may refuse

    def approved(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """The user approves a call with these arguments."""
        self._journal.decide(call_id, digest(tool, arguments))

    def rejected(self, call_id: str) -> None:
        """The user rejects a call."""
        self._withdraw(call_id)
        self._journal.decide(call_id, _REJECTED)

    def refused(self, call_id: str) -> None:
        """The server did not take the decision: the call was decided before, or is asked about again."""
        self._withdraw(call_id)
        self._journal.undecide(call_id)

    def released(self, call_id: str) -> None:
        """The server has taken the decision."""
        self._unsure.pop(call_id, None)

    def remembered(self, call_id: str, tool: str, arguments: Mapping[str, Any], remember: Mapping[str, str]) -> None:
        """The user allows calls that are similar to one, as the server's rule does, in this workspace."""
        pattern = remember.get("pattern")
        consent = _consent(tool, arguments) if pattern is None else json.dumps(["pattern", tool, pattern])
        self._unsure[call_id] = consent
        self._journal.consent(consent, all_sessions=remember.get("scope") == "user")

    def _withdraw(self, call_id: str) -> None:
        if (consent := self._unsure.pop(call_id, None)) is not None:
            self._journal.withdraw_consent(consent)

    def chose_mode(self, mode: str) -> None:
        """The user has chosen the session's mode in this client."""
        if mode == "autonomous":
            self._journal.consent(_AUTONOMOUS)
        else:
            self._journal.withdraw_consent(_AUTONOMOUS)

    def accepted_plan(self, call_id: str, mode: str) -> None:
        """The user accepts a plan, which is carried out in this mode."""
        self.chose_mode(mode)
        if mode == "autonomous":
            self._unsure[call_id] = _AUTONOMOUS

    def saw_rules(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """These are the server's rules."""
        self._tools |= {str(rule.get("rule_id")): str(rule.get("tool_name")) for rule in rules}

    def revoked(self, rule_id: str) -> None:
        """The user revokes a rule: what was allowed for its tool is allowed no longer."""
        tool = self._tools.get(rule_id)
        for consent in self._journal.consents():
            kind, *about = json.loads(consent)
            if kind != "autonomy" and tool in (None, about[0]):
                self._journal.withdraw_consent(consent)

    def is_decided(self, call_id: str) -> bool:
        """Whether the user has decided about just this call."""
        return self._journal.decided(call_id) is not None

    def verdict(self, call: ToolCall) -> Verdict:
        """Whether a released call, whose arguments are known, may be executed."""
        tool, arguments = call.tool_name, call.arguments or {}
        decision = self._journal.decided(call.call_id)
        if decision is not None:
            if decision == digest(tool, arguments):
                return Verdict.RUNS
            return Verdict.REJECTED if decision == _REJECTED else Verdict.CHANGED
        if not risks.needs_decision(tool, arguments, self._own()) or self._allows(tool, arguments):
            return Verdict.RUNS
        return Verdict.RUNS if self._elsewhere.is_allowed else Verdict.ELSEWHERE

    def begins(self, call: ToolCall) -> None:
        """A call is about to be executed: a remembered command counts until something may have changed."""
        tool, arguments = call.tool_name, call.arguments or {}
        if risks.risk_of(tool, arguments, self._own()) == "read":
            return
        own_consent = _consent(tool, arguments)
        for consent in self._journal.consents():
            if json.loads(consent)[:2] == ["similar", "run_command"] and consent != own_consent:
                self._journal.withdraw_consent(consent)

    def _allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        similar = _consent(tool, arguments)
        return any(consent == similar or _covers(consent, tool, arguments) for consent in self._journal.consents())


def digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """A digest that is equal for the same call, however its paths are spelled; no two are for one too deep to read."""
    try:
        text = json.dumps([risks.canonical(tool), risks.normal_arguments(tool, arguments)], sort_keys=True)
    except RecursionError:
        return f"too deep {uuid.uuid4()}"
    return hashlib.sha256(text.encode()).hexdigest()


def described(tool: str, arguments: Mapping[str, Any]) -> str:
    """What `remembered` allows without a pattern, for humans: paths, a host, or the whole arguments."""
    if origin := _origin(tool, arguments):
        return origin
    if paths := _paths(tool, arguments):
        return ", ".join(path for _, path in paths)
    if risks.canonical(tool) == "run_command":
        cwd = risks.normal_path(str(arguments.get("cwd") or "."))
        return f"{arguments.get('command', '')}" + ("" if cwd == "." else f" (in {cwd})")
    text = json.dumps(dict(arguments), ensure_ascii=False)
    if len(text) <= _DESCRIBED_CHARS:
        return text
    return f"exactly these arguments ({len(text):,} characters, {digest(tool, arguments)[:16]})"


def _consent(tool: str, arguments: Mapping[str, Any]) -> str:
    """Calls with the same paths; of a tool without paths, or that executes something, exactly the same calls."""
    subject: Any = _origin(tool, arguments) or _paths(tool, arguments) or digest(tool, arguments)
    return json.dumps(["similar", risks.canonical(tool), subject])


def _origin(tool: str, arguments: Mapping[str, Any]) -> str:
    return risks.web_origin(arguments.get("url")) if risks.canonical(tool) == "fetch_url" else ""


def _paths(tool: str, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [] if risks.risk_of(tool, arguments) == "execute" else risks.paths_of(tool, arguments)


def _covers(consent: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a pattern or the mode covers a call."""
    kind, *about = json.loads(consent)
    if kind == "autonomy" or risks.always_asks(tool, arguments):
        return kind == "autonomy" and not risks.always_asks(tool, arguments)
    if kind != "pattern" or about[0] != tool:
        return False
    paths = [path.split("/") for _, path in _paths(tool, arguments)]
    return about[1] == "**" or (bool(paths) and all(globs.matches(about[1], names) for names in paths))
