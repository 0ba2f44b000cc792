"""Commands that a human lets run again without being asked, where the operator allows that (`REMEMBER_COMMANDS`).

What a command does depends on files: `npm test` runs what `package.json` says. So such a rule holds only until the
agent has made any other call that does not only read, and a session has one at most: the register names it while it
holds.
"""

import re
from collections.abc import Mapping
from typing import Any

from codelab.protocol.tools import KNOWN, Tool
from codelab.sessions.items import CallItem
from codelab.sessions.register import CallState, Register
from codelab.turns.draft import Draft

#: Tools that run any command: their denials are compared word by word.
RUNNING = frozenset({"run_command", "run_persistent"})
#: The one whose approval may be remembered.
_REMEMBERED = "run_command"
#: No shell gives one of these a meaning of its own; it reads a space as the end of a word.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=@+,-]+(?: +[A-Za-z0-9_./:=@+,-]+)*")
#: Characters of a command line: whoever lets it run again must be able to read it whole.
_CHARS = 500
#: What `hello` may call systems whose shell reads a plain command line as what it looks like.
_POSIX = frozenset({"linux", "macos", "darwin", "freebsd", "openbsd", "netbsd"})


def words(arguments: Mapping[str, Any]) -> tuple[list[str], str]:
    """The words of a command line, and where it runs: what two calls have in common that run the same."""
    return str(arguments.get("command", "")).split(), str(arguments.get("cwd", "."))


def may_be_remembered(draft: Draft, tool: Tool, arguments: Mapping[str, Any], executor: str) -> bool:
    """May an approval of this call hold for the next one? `executor` is the connection that runs it."""
    command, cwd = str(arguments.get("command", "")), str(arguments.get("cwd", "."))
    connection = draft.register.connections.get(executor)
    return (
        draft.settings.remember_commands
        and tool.name == _REMEMBERED
        and len(command) <= _CHARS
        and bool(_PLAIN.fullmatch(command))
        and bool(_PLAIN.fullmatch(cwd))
        and not tool.makes_tools_run_code(arguments)
        and connection is not None
        and connection.platform.casefold() in _POSIX
    )


def holds(draft: Draft, rule_id: str, tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Does this rule still let such a call run? Not while a call runs that may change what the command depends on."""
    register = draft.register
    return (
        register.command_rule == rule_id
        and may_be_remembered(draft, tool, arguments, register.executor)
        and not any(call.state is CallState.EXECUTING and _changes(call.tool) for call in register.open_calls.values())
    )


def begin(draft: Draft, call: CallItem, rule_id: str) -> None:
    """The call runs by this rule, or has made it: so it does not end it."""
    call.decision["command_rule"] = draft.register.command_rule = rule_id


def invalidate(draft: Draft, call: CallItem, tool: Tool) -> None:
    """The call is let go, or has ended: unless it only reads, what the remembered command depends on may be another."""
    register: Register = draft.register
    if not register.command_rule or call.decision.get("command_rule") == register.command_rule:
        return
    risk = tool.risk_of(draft.value(call.effective_arguments)) if tool.harmless else tool.risk
    if risk != "read":
        register.command_rule = ""


def _changes(tool_name: str) -> bool:
    tool = KNOWN.get(tool_name)
    return tool is None or tool.risk != "read"
