"""Codelab with one thing changed: what an experiment compares with the system as it is.

A variant is a small edit of the prompts, tools or code in a copy of the checkout. It fails where it does not find what
it changes, so that nothing is measured that is no change.

Of rules, many are cheaper to measure at once: in `halves` a task is done by two complementary halves of all rules, and
each rule's effect is the mean difference between the runs with it and those without. The halves are orthogonal: over
all blocks, no rule stands more often with another one than without it.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from codelab.protocol.tools import CATALOGUE

#: All of a checkout that its local cloud reads.
_CODE = ("functions", "layers", "template.yaml", "pyproject.toml")
_LAYER = "layers/codelab/codelab"
#: The prompt of the agent that answers, and the rules of all agents.
_AGENT, _RULES = f"{_LAYER}/agents/universal.toml", f"{_LAYER}/agents/rules.md"
_BULLET = re.compile(r'^- .*\n(?:(?!- |"""|\n).*\n)*', re.MULTILINE)
_SLUG_WORDS = 5
#: Sylvester's matrix of this order has a column for each of as many rules.
BLOCKS = 16
_DOZEN = (
    *("read_file", "write_file", "edit_file", "list_files", "find_files", "search_in_project", "create_directory"),
    *("delete_file", "move_file", "run_command", "prompt_user", "read_result"),
)


class VariantError(ValueError):
    """There is no such variant, or the checkout does not have what it changes. The message says which."""


def _edit(path: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(code: Path) -> None:
        text = (code / path).read_text("utf-8")
        if old not in text:
            raise VariantError(f"{path} has no {old!r}")
        (code / path).write_text(text.replace(old, new), "utf-8")

    return edit


def _tools(names: Iterable[str]) -> Callable[[Path], None]:
    given = ", ".join(f'"{name}"' for name in sorted(names))
    return _edit(_AGENT, 'risks = ["read", "write", "execute"]', f"tools = [{given}]")


#: By name, the edit of a copy. Beside these, `no-RULE` leaves out one of the `rules`.
VARIANTS: Mapping[str, Callable[[Path], None]] = {
    "no-catalogue": _edit(f"{_LAYER}/llm/form.py", "Form(writer.catalogue(), ", 'Form("", '),
    "calls-in-form": _edit(f"{_LAYER}/llm/profiles.py", 'reads_calls="qwen", ', ""),
    "whole-files": _tools(CATALOGUE.keys() - {"edit_file", "apply_patch", "apply_patch_review"}),
    "diffs": _tools(CATALOGUE.keys() - {"edit_file"}),
    "dozen-tools": _tools(_DOZEN),
}


def rules(checkout: Path) -> dict[str, tuple[str, str]]:
    """The rules in the prompt of the agent that answers, by a name of their first words: file and text.

    Raises VariantError.
    """
    found: dict[str, tuple[str, str]] = {}
    for path in (_RULES, _AGENT):
        if not (checkout / path).is_file():
            raise VariantError(f"{checkout} has no {path}")
        for rule in _BULLET.findall((checkout / path).read_text("utf-8")):
            slug = "-".join(re.findall(r"[a-z]+", rule.lower())[:_SLUG_WORDS])
            if slug in found:
                raise VariantError(f"two rules begin with {slug}")
            found[slug] = path, rule
    return found


def copy(checkout: Path, names: Sequence[str], folder: Path) -> Path:
    """A copy in `folder` of the code that a cloud runs, with these variants. Raises VariantError."""
    known = rules(checkout)
    for name in names:
        if name not in VARIANTS and name.removeprefix("no-") not in known:
            raise VariantError(
                f"there is no variant {name}; there are {', '.join([*VARIANTS, *(f'no-{rule}' for rule in known)])}"
            )
    for part in _CODE:
        source = checkout / part
        if source.is_dir():
            shutil.copytree(source, folder / part, dirs_exist_ok=True)
        else:
            shutil.copy2(source, folder / part)
    for name in names:
        if name in VARIANTS:
            VARIANTS[name](folder)
        else:
            path, rule = known[name.removeprefix("no-")]
            _edit(path, rule, "")(folder)
    return folder


def halves(known: Sequence[str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """By block, what its first half of the rules leaves out, and what the other does. Raises VariantError."""
    if len(known) > BLOCKS:
        raise VariantError(f"{len(known)} rules are more than {BLOCKS}: they need a larger matrix")
    made = []
    for block in range(BLOCKS):
        signs = [(block & column).bit_count() % 2 == 0 for column in range(len(known))]
        left_out = [
            tuple(f"no-{rule}" for rule, sign in zip(known, signs, strict=True) if sign is not half)
            for half in (True, False)
        ]
        made.append((left_out[0], left_out[1]))
    return made
