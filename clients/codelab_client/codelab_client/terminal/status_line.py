"""The line below the input: what the agent does, who it is, and what it has used."""

from typing import TYPE_CHECKING

from rich.cells import cell_len

from codelab_client.safe_text import exact_line, safe_line, shortened
from codelab_client.terminal.counts import counted

if TYPE_CHECKING:
    from codelab_client.terminal.conversation import TerminalConversation

_STATUS = {
    "thinking": "thinking",
    "executing_tool": "working",
    "waiting_approval": "waiting for you",
    "error": "failed",
}
_SEPARATOR = " · "
#: Characters of what is being written.
_SUBJECT_CHARS = 60


def status_line(conversation: "TerminalConversation", columns: int) -> str:
    """The line. If it is too wide, what matters least is left out first."""
    parts = [(importance, text) for importance, text in _parts(conversation) if text]
    while len(parts) > 1 and cell_len(_joined(parts)) >= columns:
        parts.remove(min(parts, key=lambda part: part[0]))
    return _joined(parts)


def _joined(parts: list[tuple[int, str]]) -> str:
    return _SEPARATOR.join(text for _, text in parts)


def _parts(conversation: "TerminalConversation") -> list[tuple[int, str]]:
    """The parts from left to right, each with its importance."""
    session, model, cost = conversation.session, conversation.model, conversation.cost_usd
    waits_for_user = conversation.questions or conversation.approvals
    status = "waiting_approval" if waits_for_user else session.status
    completed_steps = sum(step.get("status") == "completed" for step in session.plan)
    return [
        (9, _writing(conversation) or _STATUS.get(status, safe_line(status, 20)) if conversation.is_busy else ""),
        (5, f"plan {completed_steps}/{len(session.plan)}" if session.plan else ""),
        (6, safe_line(session.mode, 20) if session.info is not None else ""),
        (2, safe_line(session.agent, 30)),
        (4, safe_line(model, 40) if model else ""),
        (1, _tokens(conversation)),
        (7, _context(conversation)),
        (3, f"${cost:.4f}" if cost is not None else ""),
        (8, f"{conversation.waiting} waiting" if conversation.waiting else ""),
        (10, str(conversation.pause) if conversation.pause is not None else ""),
    ]


def _writing(conversation: "TerminalConversation") -> str:
    """The call that the model is writing."""
    draft = conversation.drafts.newest
    if draft is None:
        return ""
    subject = shortened(exact_line(draft.path or draft.tool_name), _SUBJECT_CHARS)
    count = f", {counted(draft.lines, 'line')}" if draft.lines else ""
    return f"writing {subject}{count}"


def _tokens(conversation: "TerminalConversation") -> str:
    """Those of the last turn."""
    numbers = [conversation.usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    counts = [number for number in numbers if isinstance(number, int)]
    return counted(sum(counts), "token") if len(counts) == len(numbers) else ""


def _context(conversation: "TerminalConversation") -> str:
    """How full the model's context is; without a limit, how many tokens it has."""
    tokens = conversation.context_used
    if type(tokens) is not int or tokens < 0:
        return ""
    info = conversation.session.info
    limit = info.limits.get("context_tokens") if info is not None else None
    return f"context {tokens * 100 // limit} %" if type(limit) is int and limit > 0 else f"context {tokens:,}"
