"""One line for a subagent that works."""

from rich.cells import cell_len

from codelab_client.session.subagents import Subagent
from codelab_client.terminal.wrapping import cut

#: Columns of a task that are shown at least, as far as the screen has them.
_TASK_COLUMNS = 12


def subagent_line(subagent: Subagent, doing: str, columns: int) -> str:
    """Who works on what, and what it does now, in at most `columns` columns. doing: may be shown as it is."""
    head = f"◌ {subagent.name}: "
    end = f" · {cut(doing, columns // 2)}" if doing else ""
    task = cut(subagent.task, max(_TASK_COLUMNS, columns - cell_len(head) - cell_len(end)))
    return cut(f"{head}{task}{end}", columns)
