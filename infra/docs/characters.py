"""The client's list of invisible characters, for the page."""

from collections.abc import Sequence

from codelab_client.characters import INVISIBLE, JOINERS, Range

_HEADER = """\
// Characters that nobody sees, or that change what is seen. Written by `make docs` from the client's list; do not edit.
"""


def module() -> str:
    """The TypeScript module with the list."""
    return (
        f"{_HEADER}\n/** The first and the last code point of each range. */\n"
        f"export const INVISIBLE: readonly (readonly [number, number])[] = [\n{_lines(INVISIBLE)}];\n\n"
        "/** Those of them that join or vary the characters before them, as in emoji. */\n"
        f"export const JOINERS: readonly (readonly [number, number])[] = [\n{_lines(JOINERS)}];\n"
    )


def _lines(ranges: Sequence[Range]) -> str:
    return "".join(f"  [0x{first:04x}, 0x{last:04x}],\n" for first, last in ranges)
