"""What a task is, and how its result is judged: by the workspace's bytes and the final answer, never by the way."""

import re
from dataclasses import dataclass, field

Files = dict[str, str]


@dataclass(frozen=True)
class Task:
    """One message to the agent.

    `files` is the workspace before. `expected` has the files that must differ afterwards, each as the texts that are
    right (line ends at the end of the file do not count); every other file must be as it was, and no new one may be
    there. `facts` are regular expressions that the final answer must have. `answer` is a right answer, for the tests of
    the grader.
    """

    name: str
    kind: str
    message: str
    files: Files
    expected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    answer: str = "Done."

    def solved(self, after: Files, answer: str) -> bool:
        """Whether the workspace `after` and the final `answer` are right."""
        wanted = {name: (text,) for name, text in self.files.items()} | self.expected
        return (
            after.keys() == wanted.keys()
            and all(after[name].rstrip() in {text.rstrip() for text in texts} for name, texts in wanted.items())
            and bool(answer.strip() or not self.facts)
            and all(re.search(fact, answer, re.IGNORECASE) for fact in self.facts)
        )


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
