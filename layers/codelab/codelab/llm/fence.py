"""Code fences around texts of unknown authors."""

import re

_RUN = re.compile("`{3,}")


def fenced(text: str, language: str = "") -> str:
    """`text` in a code fence longer than any in it, so that nothing in it can end the fence. In linear time."""
    longest = max((len(run) for run in _RUN.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
