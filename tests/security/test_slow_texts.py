"""A text that somebody else wrote never takes a program longer than its size allows."""

import difflib
import random
import time
from collections.abc import Callable
from itertools import islice, product

import pytest
from codelab.llm.fence import fenced
from codelab.llm.parsing import NoJson, parse
from codelab_client.differences import Difference, difference, spelled_out

#: Seconds for what takes some milliseconds; the attacks took minutes.
_MOST_S = 2.0


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


@pytest.mark.parametrize("text", ["`" * 60_000, "` " * 60_000 + "`" * 60_000, "``` " * 60_000])
def test_a_file_of_backticks_is_put_into_a_fence(text: str) -> None:
    made = fenced(text)
    fence = made.split("\n", 1)[0]
    assert made == f"{fence}\n{text}\n{fence}"
    assert fence not in text
    assert seconds(lambda: fenced(text)) < _MOST_S


@pytest.mark.parametrize("text", ["```" + "\n" * 20_000, "```json" + " \n" * 20_000 + "x", "``` " * 20_000 + "x"])
@pytest.mark.parametrize("prose", [False, True])
def test_a_model_begins_a_fence_and_ends_none(text: str, prose: bool) -> None:
    def refused() -> None:
        with pytest.raises(NoJson):
            parse(text, prose=prose)

    assert seconds(refused) < _MOST_S


def lines(count: int, seed: int) -> str:
    """Lines of which each occurs often, and none so often that it does not count."""
    chosen = random.Random(seed)
    return "".join(f"{chr(0x100 + chosen.randrange(150))}\n" for _ in range(count))


def test_two_texts_of_few_different_lines_are_compared() -> None:
    before, after = lines(40_000, 1), f"{lines(40_000, 2)}evil\n"
    shown: list[Difference] = []
    assert seconds(lambda: shown.append(difference(before, after, "a.txt"))) < 5 * _MOST_S
    assert "+evil" in shown[0].lines[:10]
    assert [line[1:] for line in shown[0].lines if line.startswith("+") and line != "+++ b/a.txt"][1:] == after.split(
        "\n"
    )[:-1]
    assert any("too long" in note for note in shown[0].notes)


def test_lines_that_differ_in_tabs_and_blanks_are_compared() -> None:
    blanks = ["".join(some) for some in islice(product(" \t", repeat=13), 8_000)]
    changed = [f"{sign}{blank}a" for sign, some in (("-", blanks[:4_000]), ("+", blanks[4_000:])) for blank in some]
    shown: list[Difference] = []
    assert seconds(lambda: shown.append(spelled_out(changed))) < _MOST_S
    assert all("␉" in line or "\t" not in line for line in shown[0].lines)
    assert shown[0].notes


@pytest.mark.parametrize("seed", range(20))
def test_a_difference_is_the_one_that_git_would_show(seed: int) -> None:
    chosen = random.Random(seed)
    old = [f"{chosen.randrange(9)}\n" for _ in range(chosen.randrange(40))]
    new = [line for line in old if chosen.random() > 0.1] + [f"{chosen.randrange(9)}\n" for _ in range(seed % 3)]
    if old != new and old and new:
        wanted = [line.removesuffix("\n") for line in difflib.unified_diff(old, new, "a/x", "b/x")]
        assert list(difference("".join(old), "".join(new), "x").lines) == wanted
