"""Our own tasks, in a short form that is written out in Harbor's: see `task`.

Those of `held_out*` were written by somebody who does not work on the prompts, and whoever does never reads them: their
runs say whether what was learnt from the others holds for tasks that nobody has looked at.
"""

from pathlib import Path

from evals.suite import behaviour, debug, held_in, held_out, held_out_second, injections, long, typescript
from evals.suite.task import Task, export

HELD_IN: tuple[Task, ...] = (
    *(*held_in.TASKS, *typescript.TASKS, *debug.TASKS, *behaviour.TASKS),
    *(*long.TASKS, *injections.TASKS),
)
HELD_OUT: tuple[Task, ...] = (*held_out.TASKS, *held_out_second.TASKS)
#: Ten of the first kind, for a look at a model: each a minute or less on a machine of one's own.
SMOKE = (
    *("tax-rate", "keep-days", "create-version", "rename-constant", "find-ring"),
    *("run-primes", "two-versions", "ask-port", "plain-sum", "duty-ru"),
)


def export_all(folder: Path) -> list[Path]:
    """Write all tasks below `folder`."""
    return [*export(HELD_IN, folder), *export(HELD_OUT, folder, held_out=True)]
