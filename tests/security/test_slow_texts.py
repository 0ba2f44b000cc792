"""A text that somebody else wrote never takes a program longer than its size allows."""

import time
from collections.abc import Callable

import pytest
from codelab.llm.fence import fenced
from codelab.llm.parsing import NoJson, parse

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
