"""Remembered commands, which run again without approval if the operator allows it (`REMEMBER_COMMANDS`).

What a command does depends on files: `npm test` runs what `package.json` says. So such a rule is valid only until the
agent makes another call that may change something. A session has at most one such rule; the register names it.
"""

import re
from collections.abc import Mapping
from typing import Any

from codelab.protocol.modes import acting_mode
from codelab.protocol.tools import KNOWN_TOOLS, Tool
from codelab.sessions.items import CallItem
from codelab.sessions.register import CallState, Register
from codelab.turns.draft import Draft
from codelab.turns.platforms import is_posix

#: Tools that run any command; their denials are compared word by word.
RUNNING = frozenset({"run_command", "run_persistent"})
#: The tool whose approval may be remembered.
_RUN_COMMAND = "run_command"
#: Characters without a special meaning in any shell; a space ends a word.
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9_./:=@+,-]+(?: +[A-Za-z0-9_./:=@+,-]+)*")
#: The longest command line (characters), so that humans can read all of what they allow.
_CHARS = 500


def words(arguments: Mapping[str, Any]) -> tuple[list[str], str]:
    """The words of a command line and its directory, which are equal for equal commands."""
    return str(arguments.get("command", "")).split(), str(arguments.get("cwd", "."))


def may_be_remembered(draft: Draft, tool: Tool, arguments: Mapping[str, Any], executor: str) -> bool:
    """May an approval of this call be remembered? `executor` is the id of the connection that runs it."""
    return draft.settings.remember_commands and _is_plain(draft, tool, arguments, executor)


def is_repeatable(draft: Draft, tool: Tool, arguments: Mapping[str, Any], executor: str, *, call_id: str) -> bool:
    """May the client that executes this call, in its sandbox, approve it again by itself if its user says so?

    The server cannot see the sandbox, nor the files that the command reads, so it leaves that to the client. Not while
    another call is open that may change what the command depends on.
    """
    register = draft.register
    return (
        draft.settings.sandboxed_commands
        and acting_mode(register.settings) != "autonomous"
        and _is_plain(draft, tool, arguments, executor)
        and not any(other_id != call_id and _changes(call.tool) for other_id, call in register.open_calls.items())
    )


def _is_plain(draft: Draft, tool: Tool, arguments: Mapping[str, Any], executor: str) -> bool:
    """Is this a command of words without a meaning in a shell, in a shell of POSIX?"""
    command, cwd = str(arguments.get("command", "")), str(arguments.get("cwd", "."))
    connection = draft.register.connections.get(executor)
    return (
        tool.name == _RUN_COMMAND
        and len(command) <= _CHARS
        and bool(_PLAIN_WORDS.fullmatch(command))
        and bool(_PLAIN_WORDS.fullmatch(cwd))
        and not tool.makes_tools_run_code(arguments)
        and connection is not None
        and is_posix(connection)
    )


def holds(draft: Draft, rule_id: str, tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Does this rule still allow the call? Not while a call runs that may change what the command depends on."""
    register = draft.register
    return (
        register.command_rule == rule_id
        and may_be_remembered(draft, tool, arguments, register.executor)
        and not any(call.state is CallState.EXECUTING and _changes(call.tool) for call in register.open_calls.values())
    )


def begin(draft: Draft, call: CallItem, rule_id: str) -> None:
    """Make this the session's command rule. It allowed `call` or was made from it, so `call` does not end it."""
    call.decision["command_rule"] = draft.register.command_rule = rule_id


def invalidate(draft: Draft, call: CallItem, tool: Tool) -> None:
    """End the remembered command if `call`, which starts or has ended, may change what the command depends on."""
    register: Register = draft.register
    if not register.command_rule or call.decision.get("command_rule") == register.command_rule:
        return
    risk = tool.risk_of(draft.value(call.effective_arguments)) if tool.harmless else tool.risk
    if risk != "read":
        register.command_rule = ""


def _changes(tool_name: str) -> bool:
    tool = KNOWN_TOOLS.get(tool_name)
    return tool is None or tool.risk != "read"
