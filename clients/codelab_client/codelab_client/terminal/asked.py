"""Which question a line answers: the one that was on the screen when it was typed, and no other."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codelab_client.safe_text import exact_line
from codelab_client.session import events as on
from codelab_client.session.decisions import described
from codelab_client.tools.risks import always_asks

if TYPE_CHECKING:
    from codelab_client.terminal.conversation import TerminalConversation

#: A key or a line decides only if the user has had time to see the question (seconds).
LOOK_S = 0.5
#: What a user types to decide about a call.
WORDS = frozenset({"y", "yes", "n", "no", "a", "e"})

#: Calls that may be approved together: their cards show all that they change, in files.
_CHANGES = frozenset({"write_file", "edit_file", "apply_patch"})

_ELSEWHERE = (
    "Approved elsewhere: in another window, over HTTP, by a rule or by the session's mode, or by nobody. This "
    "client cannot tell, so it asks whether the call may run here."
)


@dataclass(frozen=True)
class Target:
    """What a line is for: a message, a question of a tool, a call, or a question that nobody can have read yet."""

    kind: Literal["message", "question", "call", "early"]
    key: str = ""


def target(conversation: "TerminalConversation", now: float | None = None) -> Target:
    """What a line is for that is typed now (monotonic)."""
    now = time.monotonic() if now is None else now
    if conversation.questions:
        question = conversation.questions[0]
        return Target("question", str(id(question))) if now - question.asked_at > LOOK_S else Target("early")
    if conversation.approvals:
        call = conversation.approvals[0]
        return Target("call", call.call_id) if now - conversation.asked_at > LOOK_S else Target("early")
    return Target("message")


def origin(call: on.CallDecidedElsewhere) -> str:
    """Why a released call is asked about."""
    return f"The project's permissions ask about it: {call.asked_by}" if call.asked_by else _ELSEWHERE


def always(call: on.ToolCall, conversation: "TerminalConversation") -> str:
    """What is allowed if the user says "always" to a call; empty if nothing can be."""
    if isinstance(call, on.CallDecidedElsewhere):
        if call.asked_by:
            return ""
        server = exact_line(conversation.session.address.shown)
        return f"whatever {server} says was approved elsewhere, in {exact_line(conversation.workspace)}"
    is_allowable = conversation.allowed_commands.offers(call)
    if call.arguments is None or not (call.scopes or is_allowable):
        return ""
    extent = ", in the sandbox, until what it names or a protected file changes" if is_allowable else ""
    return f"{exact_line(call.tool_name)} {exact_line(described(call.tool_name, call.arguments))}{extent}"


def together(calls: Iterable[on.ToolCall]) -> list[on.ToolCall]:
    """Those of the calls that wait which may be approved at once: changes of files that are not protected.

    Empty unless the first one, which is on the screen, is one of several.
    """
    waiting = list(calls)
    changes = [call for call in waiting if _is_change(call)]
    return changes if len(changes) > 1 and changes[0] is waiting[0] else []


def _is_change(call: on.ToolCall) -> bool:
    if call.tool_name not in _CHANGES or call.arguments is None or isinstance(call, on.CallDecidedElsewhere):
        return False
    return bool(call.scopes) and not always_asks(call.tool_name, call.arguments)


class Numbers:
    """Numbers of the calls that the user was asked about, which a line may name: `y #2`.

    If a call goes away under the user's hands, the next one must be named.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._asked_call_id = ""
        self._lost_number = 0

    def ask(self, call_id: str) -> int:
        """The user is asked about a call, or about none (empty). Returns its number."""
        if self._asked_call_id and call_id != self._asked_call_id:
            self._lost_number = self._numbers[self._asked_call_id]
        self._asked_call_id = call_id
        return self._numbers.setdefault(call_id, len(self._numbers) + 1) if call_id else 0

    def decided(self) -> None:
        """The user has decided about the call."""
        self._asked_call_id, self._lost_number = "", 0

    def number(self, call_id: str) -> int:
        """A call's number; 0 if the user was not asked about it."""
        return self._numbers.get(call_id, 0)

    def take_lost(self) -> int:
        """The number of the call that went away before the user decided, once; 0 if there is none."""
        number, self._lost_number = self._lost_number, 0
        return number

    @property
    def lost(self) -> int:
        """The number of that call, as long as the user has named no other."""
        return self._lost_number


def parse(line: str) -> tuple[str, int | None, str]:
    """The word, the number and the rest of a line such as `n #2 not now`. Without a number, that is None."""
    word, _, remainder = line.strip().partition(" ")
    name, _, reason = remainder.strip().partition(" ")
    if name.startswith("#") and name[1:].isdecimal() and len(name) < 10:
        return word.lower(), int(name[1:]), reason.strip()
    return word.lower(), None, remainder.strip()
