"""Generated edits: each lands exactly where it was meant, or is refused and changes nothing.

The place that is meant is known, because the edit was made from it.
"""

import asyncio
import difflib
import random
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from codelab_client.tools.executor import Executor
from codelab_client.tools.memory import MemoryWorkspace

from tests.client.calls import call

FILE = ("a.txt",)
WORDS = (
    *(
        "return",
        "value",
        "if x:",
        "}",
        "{",
        "",
        "  ",
        "\t",
        "\tif (a < b) {",
        "    pass",
        "# ---",
        "x = 1",
        "x = 10",
        "x  = 1",
    ),
    *(
        "naïve",
        unicodedata.normalize("NFD", "naïve"),
        "日本語のコメント",
        "שלום",
        "🙂🏽",
        "e\u0301",
        "\u00e9",
        "\u2028",
        "ﬁ",
        "ı",
    ),
    *("-", "+", "@@ -1 +1 @@", "--- a/a.txt", "\\ No newline at end of file", "\x0c", "\x85", "0\ufeff"),
)
#: Generated cases of each tool, and those that every run of the tests tries.
CASES, SAMPLE = 500, 40


@dataclass
class Tally:
    landed: int = 0
    refused: int = 0
    why: list[str] = field(default_factory=list)


def line(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(0, 4)))


def generated(chance: random.Random, *, large: bool) -> str:
    """A file: mixed scripts, tabs, blocks that repeat, either line end or both, with or without the last one."""
    lines = [line(chance) for _ in range(chance.randint(1, 60))]
    if chance.random() < 0.6:
        block = [line(chance) for _ in range(chance.randint(1, 5))]
        for _ in range(chance.randint(2, 8)):
            lines[(at := chance.randint(0, len(lines))) : at] = block
    if large:
        lines = [f"{chance.choice(lines)} {n % 700}" for n in range(30_000)]
    ends = chance.choice((["\n"], ["\r\n"], ["\n", "\r\n"]))
    text = "".join(each + chance.choice(ends) for each in lines)
    if chance.random() < 0.3:
        text = text.rstrip("\r\n")
    text = ("\ufeff" if chance.random() < 0.1 else "") + text
    return text.encode()[:990_000].decode(errors="ignore") if large else text


def occurrences(text: str, wanted: str) -> list[int]:
    found, at = [], text.find(wanted)
    while at >= 0 and len(found) < 5:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found


def tried(tool: str, before: str, **arguments: object) -> tuple[str | None, str]:
    """The file after the call, None if it was refused, and why."""
    workspace = MemoryWorkspace({FILE: before.encode()})
    outcome = asyncio.run(call(Executor(workspace), tool, **arguments))
    after = workspace.files[FILE].decode()
    if outcome.error is None:
        return after, ""
    assert outcome.error.code == "PATCH_APPLY_FAILED", outcome.error
    assert after == before, "a refused call changes nothing"
    assert len(outcome.error.message) < 6_000
    return None, outcome.error.message


# -- edit_file ---------------------------------------------------------------------------------------------------------


def spoilt(chance: random.Random, old: str) -> str:
    """`old` as a model may remember it."""
    at = chance.randrange(len(old))
    return chance.choice(
        (
            old.replace("\t", "    "),
            old.replace("  ", " "),
            unicodedata.normalize("NFC", old),
            unicodedata.normalize("NFKC", old),
            old.rstrip(),
            old + " ",
            old[:at] + "x" + old[at + 1 :],
            old.upper(),
            f"1\t{old}",
        )
    )


def edit(seed: int, tally: Tally) -> None:
    chance = random.Random(seed)
    text = generated(chance, large=seed % 50 == 0)
    if not text:
        return
    start = chance.randrange(len(text))
    end = min(len(text), start + chance.choice((1, 3, 20, 200)))
    meant, new = text[start:end], line(chance) + chance.choice(("", "\n", "\r\n", "\nmore\n"))
    old = spoilt(chance, meant) if chance.random() < 0.3 else meant
    only_crlf = text.count("\n") == text.count("\r\n") > 0
    if only_crlf and chance.random() < 0.5:
        old = old.replace("\r\n", "\n")
    if not old:
        return

    def as_in_the_file(given: str) -> str:
        return given.replace("\r\n", "\n").replace("\n", "\r\n") if only_crlf else given

    found = occurrences(text, as_in_the_file(old))
    after, why = tried("edit_file", text, path="a.txt", edits=[{"old": old, "new": new}])
    expected = None
    if len(found) == 1 and as_in_the_file(old) != as_in_the_file(new):
        (at,) = found
        expected = text[:at] + as_in_the_file(new) + text[at + len(as_in_the_file(old)) :]
    assert after == expected, (seed, why)
    if as_in_the_file(old) == meant and after is not None:
        assert (after[:start], after[len(after) - len(text) + end :]) == (text[:start], text[end:])
    tally.landed += after is not None
    tally.refused += after is None


# -- apply_patch -------------------------------------------------------------------------------------------------------


def diff(before: Sequence[str], after: Sequence[str], context: int, shift: int = 0) -> str:
    """A diff whose line numbers are off by `shift`."""
    written = []
    for each in difflib.unified_diff(before, after, "a/a.txt", "b/a.txt", n=context):
        if each.startswith("@@ ") and shift:
            old, new = (part[1:].split(",") for part in each.split()[1:3])
            old[0], new[0] = (str(max(1, int(number) + shift)) for number in (old[0], new[0]))
            each = f"@@ -{','.join(old)} +{','.join(new)} @@\n"
        written.append(each if each.endswith("\n") else f"{each}\n\\ No newline at end of file\n")
    return "".join(written)


def patch(seed: int, tally: Tally) -> None:
    chance = random.Random(seed)
    before = [each for each in generated(chance, large=seed % 50 == 0).split("\n") if each != "\r"]
    lines = [f"{each}\n" for each in before[:-1]] + ([before[-1]] if before[-1] else [])
    if len(lines) < 3:
        return
    at = chance.randrange(len(lines) - 1)
    gone = chance.randint(0, 2)
    added = [f"{line(chance)}\n" for _ in range(chance.randint(0 if gone else 1, 2))]
    changed = [*lines[:at], *added, *lines[at + gone :]]
    if changed == lines or not changed[-1].endswith("\n") or not lines[-1].endswith("\n"):
        return
    shift = chance.choice((0, 0, 1, -1, 4, -7))
    context = chance.randint(0, 3)
    text = diff(lines, changed, context, shift)
    # Meanwhile somebody has added lines above or below.
    meanwhile = [f"{line(chance)}\n" for _ in range(chance.choice((0, 0, 0, 1, 3)))]
    above = chance.random() < 0.7
    actual = [*meanwhile, *lines] if above else [*lines, *meanwhile]
    expected = [*meanwhile, *changed] if above else [*changed, *meanwhile]
    after, why = tried("apply_patch", "".join(actual), diff=text)
    tally.landed += after is not None
    tally.refused += after is None
    if after is None:
        if not shift and not meanwhile and context:
            raise AssertionError((seed, why, text))
        return
    assert after == "".join(expected), (seed, text)


@pytest.mark.parametrize("make", [edit, patch])
def test_generated_edits_land_exactly_or_are_refused(make: Any) -> None:
    tally = Tally()
    for seed in range(1, SAMPLE + 1):
        make(seed, tally)
    assert tally.landed >= SAMPLE / 5
    assert tally.refused >= SAMPLE / 10


@pytest.mark.deep
@pytest.mark.parametrize("make", [edit, patch])
def test_many_generated_edits_land_exactly_or_are_refused(make: Any) -> None:
    tally, seed = Tally(), 0
    while tally.landed + tally.refused < CASES:
        make(seed, tally)
        seed += 1
    assert tally.landed >= CASES / 5
    assert tally.refused >= CASES / 10
