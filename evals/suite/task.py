"""Our tasks in a short form, and how one is written out as a folder in Harbor's format."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals import harbor

Files = dict[str, str]

#: The grader of our own tasks.
GRADER = Path(__file__).with_name("grade.py")
_TEST = "#!/bin/bash\npython3 -I /tests/grade.py\n"


@dataclass(frozen=True)
class Task:
    """One message to the agent, judged by the workspace's bytes and the final answer, never by the way.

    `files` is the workspace before. `expected` has the files that must differ afterwards, each as the texts that are
    right (line ends at the end of the file do not count); every other file must be as it was, and no new one may be
    there. `free` are files that may have any text, of which `values` must hold: expressions over the workspace's Python
    modules, and their values as JSON. `solution` is one right text of each file in `free`. `facts` are regular
    expressions that the final answer must have. `answer` is a right answer.
    """

    name: str
    kind: str
    message: str
    files: Files
    expected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    answer: str = "Done."
    free: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    solution: Files = field(default_factory=dict)
    limit_s: float = 600

    @property
    def language(self) -> str:
        """`ru` or `en`, that of the message."""
        return "ru" if re.search(r"[а-яё]", self.message, re.IGNORECASE) else "en"

    @property
    def solved_files(self) -> Files:
        """The workspace after a right solution."""
        return self.files | {name: texts[0] for name, texts in self.expected.items()} | self.solution


def export(tasks: Iterable[Task], folder: Path, *, held_out: bool = False) -> list[Path]:
    """Write each task as a folder in Harbor's format below `folder`."""
    return [_export(task, folder / task.name, held_out) for task in tasks]


def _export(task: Task, folder: Path, held_out: bool) -> Path:
    expected = {
        "before": task.files,
        "expected": task.expected,
        "free": task.free,
        "values": task.values,
        "facts": task.facts,
    }
    tests = {"test.sh": _TEST, "expected.json": json.dumps(expected, ensure_ascii=False, indent=1)}
    harbor.write(
        folder,
        f"codelab/{task.name}",
        task.message,
        metadata={"kind": task.kind, "language": task.language, "held_out": held_out},
        files=task.files,
        tests={**tests, "grade.py": GRADER.read_text("utf-8")},
        solution={name: text for name, text in task.solved_files.items() if task.files.get(name) != text},
        agent_timeout_s=task.limit_s,
    )
    (folder / "solution" / "answer.txt").write_text(task.answer + "\n", "utf-8")
    return folder


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """`text` with each old text of `pairs`, which it must have, replaced everywhere."""
    for old, new in pairs:
        if old not in text:
            raise ValueError(f"{old!r} is not in the text")
        text = text.replace(old, new)
    return text


def named_first(right: str, wrong: str) -> str:
    """A fact: the answer names `right`, and nothing of `wrong` before it. It may tell afterwards what it is not."""
    return rf"\A(?:(?!{wrong})[\s\S])*{right}"
