"""A text that somebody else wrote never takes a program longer than its size allows."""

import difflib
import random
import time
from collections.abc import Callable
from itertools import islice, product
from typing import Any

import pytest
from codelab.llm.fence import fenced
from codelab.llm.history import in_answers_form
from codelab.llm.parsing import NoJson, parse
from codelab_client.differences import Difference, difference, hunks, spelled_out

from evals.report import masked
from tests.cases import cases

#: Seconds of this process for what takes some milliseconds; the attacks took minutes.
_MOST_S = 2.0


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@pytest.mark.parametrize("text", ["`" * 60_000, "` " * 60_000 + "`" * 60_000, "``` " * 60_000])
def test_a_file_of_backticks_is_put_into_a_fence(text: str) -> None:
    made = fenced(text)
    fence = made.split("\n", 1)[0]
    assert made == f"{fence}\n{text}\n{fence}"
    assert fence not in text
    assert seconds(lambda: fenced(text)) < _MOST_S


@cases("text", ["```" + "\n" * 20_000, "```json" + " \n" * 20_000 + "x", "``` " * 20_000 + "x"])
@cases("prose", [False, True])
def test_a_model_begins_a_fence_and_ends_none(text: str, prose: bool) -> None:
    def refused() -> None:
        with pytest.raises(NoJson):
            parse(text, prose=prose)

    assert seconds(refused) < _MOST_S


@pytest.mark.parametrize("text", ['x{"a":', '```\n{"a":'])
def test_a_model_nests_an_answer_beyond_what_can_be_read(text: str) -> None:
    with pytest.raises(ValueError, match="deeply"):
        parse(text + '{"a":' * 100_000 + ("\n```" if "```" in text else ""), prose=True)


@cases("begin", ["hf_", "glpat-", "sk-", "Bearer "])
def test_an_answer_in_an_evaluations_report_begins_keys_and_ends_none(begin: str) -> None:
    assert seconds(lambda: masked(begin * 80_000)) < _MOST_S


def test_a_caller_sends_very_many_messages_of_the_user() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    begin: dict[str, Any] = {"role": "system", "content": ""}
    messages = [begin, *({"role": "user", "content": "x" * 100} for _ in range(40_000))]
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    told: list[list[dict[str, Any]]] = []
    assert seconds(lambda: told.append(in_answers_form(messages, "text"))) < _MOST_S
    assert [message["role"] for message in told[0]] == ["system", "user", "assistant", "user"]
    assert told[0][1]["content"] == "\n\n".join(["x" * 100] * 40_000)


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


def test_what_a_turn_did_to_two_texts_of_few_different_lines_is_told() -> None:
    """`/diff`: twice as long takes four times as long."""
    one, other = (lines(20_000, seed).splitlines(keepends=True) for seed in (1, 2))
    found: list[list[str] | None] = []
    assert seconds(lambda: found.append(hunks(one, other))) < 5 * _MOST_S
    assert found == [None]
    assert hunks(one[:20], one[1:20]) == ["@@ -1,4 +1,3 @@\n", f"-{one[0]}", *(f" {line}" for line in one[1:4])]


def test_lines_that_differ_in_tabs_and_blanks_are_compared() -> None:
    blanks = ["".join(some) for some in islice(product(" \t", repeat=13), 8_000)]
    changed = [f"{sign}{blank}a" for sign, some in (("-", blanks[:4_000]), ("+", blanks[4_000:])) for blank in some]
    shown: list[Difference] = []
    assert seconds(lambda: shown.append(spelled_out(changed))) < _MOST_S
    assert all("␉" in line or "\t" not in line for line in shown[0].lines)
    assert shown[0].notes


@cases("seed", range(20))
def test_a_difference_is_the_one_that_git_would_show(seed: int) -> None:
    chosen = random.Random(seed)
    old = [f"{chosen.randrange(9)}\n" for _ in range(chosen.randrange(40))]
    new = [line for line in old if chosen.random() > 0.1] + [f"{chosen.randrange(9)}\n" for _ in range(seed % 3)]
    if old != new and old and new:
        wanted = [line.removesuffix("\n") for line in difflib.unified_diff(old, new, "a/x", "b/x")]
        assert list(difference("".join(old), "".join(new), "x").lines) == wanted
