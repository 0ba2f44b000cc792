"""What the terminal says first: where the client works, who answers, and a tip."""

from pathlib import Path

from rich.console import RenderableType

from codelab_client.safe_text import safe_line
from codelab_client.session import Session
from codelab_client.terminal import cards
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.repository import find, read_small

_REFERENCE = "ref: refs/heads/"
_TIPS = (
    "@ completes the name of a file",
    "/undo takes back what the last turn did to files",
    "a message that you send while the agent works waits for its turn",
    "an AGENTS.md file tells the agent about the project",
    "the path of an image in a message sends the image along",
    "/diff shows what the last turn did to files",
)


def first_lines(session: Session, workspace: Path) -> RenderableType:
    """The folder, the branch, the agent, the model, the mode, the session, and a tip: another one by session."""
    parts = [f"codelab in {safe_line(_short(workspace))}"]
    if name := branch(workspace):
        parts.append(f"branch {safe_line(name, 60)}")
    info = session.info
    answerer = [f"agent {safe_line(session.agent, 30)}"] if session.agent else []
    if info is not None:
        model = info.model or str(info.settings.get("model") or "")
        answerer += [f"model {safe_line(model, 60)}"] if model else []
        answerer.append(f"mode {safe_line(session.mode, 20)}")
    tip = _TIPS[sum(session.session_id.encode()) % len(_TIPS)]
    lines = [parts, answerer, [f"session {session.session_id}", "/help lists the commands"], [f"Tip: {tip}"]]
    return cards.notice("\n".join(" · ".join(line) for line in lines if line))


def branch(workspace: Path) -> str:
    """The branch that is checked out, or the beginning of the commit; empty outside of a git repository."""
    try:
        head = read_small(find(workspace).git_dir / "HEAD").strip()
    except (ToolFailure, OSError):
        return ""
    return head.removeprefix(_REFERENCE) if head.startswith(_REFERENCE) else head[:12]


def _short(folder: Path) -> str:
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) and folder != home else str(folder)
