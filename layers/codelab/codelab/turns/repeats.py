"""Loop guards: calls that are made again and again with the same result, alone or in turns with others.

A call repeats another one if its tool, its arguments and its result are equal, and nothing has been done in between
that is new in this turn, no change of files and no command: test, edit, test is no repeat. Changes of files are counted
as well, over the whole turn, so that an agent that changes something back and forth is noticed. Looking at a process
that still runs is waiting, not a repeat.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.tools import Risk
from codelab.sessions.register import Register

#: The model gets a note when the same call has had the same result so often.
NOTE_AFTER = 3
#: Tools with which an agent waits for something that goes on by itself.
WAITING_TOOLS = frozenset({"read_process"})
#: The most calls that are counted: the newest.
_MAX_CALLS = 48
#: Parts of a result that differ though nothing has changed: how long a command took, and when a file was touched.
_VOLATILE = re.compile(r'"(duration\w*|elapsed\w*|modified)":\s*("[^"]*"|[\d.]+),?|\bin \d+(\.\d+)? ?m?s\b')
#: Marks the digests of changes.
_CHANGE = "w"


def is_waiting(tool: str, result: Any) -> bool:
    """Whether a call with this result has looked at a process that still runs."""
    return tool == "read_process" and isinstance(result, Mapping) and result.get("status") == "running"


def count(register: Register, digest: str, risk: Risk, result: str) -> int:
    """Count a completed call, whose tool and arguments have this digest. Returns how often it had this result."""
    result_digest = hashlib.sha256(_VOLATILE.sub("", result).encode()).hexdigest()[:8]
    call = f"{_CHANGE if risk == 'write' else ''}{digest}"
    key = f"{call}{result_digest}"
    if risk != "read" and not any(name.startswith(call) for name in register.repeats):
        # Kept with 0, so that they are not new again.
        register.repeats = {name: n * name.startswith(_CHANGE) for name, n in register.repeats.items()}
    repeat_count = register.repeats.pop(key, 0) + 1
    register.repeats[key] = repeat_count
    while len(register.repeats) > _MAX_CALLS:
        register.repeats.pop(next(iter(register.repeats)))
    return repeat_count


def note(times: int) -> str:
    """What the model reads behind the result of a call that it repeats."""
    return (
        f"\n[This call had the same result {times} times, and nothing changed in between. Do not make it again: use "
        "what you know, do something else, or answer.]"
    )


def error(register: Register, limit: int) -> ProtocolError | None:
    """The error that ends a turn in which a call had the same result `limit` times; 0 means no limit."""
    if not limit or max(register.repeats.values(), default=0) < limit:
        return None
    return ProtocolError(
        ErrorCode.AGENT_ERROR,
        f"The agent made the same call {limit} times with the same result; tell it what to do",
        details={"reason": "repeated call"},
    )
