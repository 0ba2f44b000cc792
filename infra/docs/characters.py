"""The client's list of invisible characters, for the page."""

from collections.abc import Sequence

from codelab_client.characters import HIDDEN_IN_PROSE, INVISIBLE, JOINERS, Range

_HEADER = """\
// Characters that nobody sees, or that change what is seen. Written by `make docs` from the client's list; do not edit.
"""


def module() -> str:
    """The TypeScript module with the list."""
    return f"{_HEADER}\ntype Ranges = readonly (readonly [number, number])[];\n" + "".join(
        f"\n/** {comment} */\nexport const {name}: Ranges = [\n{_lines(ranges)}];\n"
        for name, ranges, comment in (
            ("INVISIBLE", INVISIBLE, "The first and the last code point of each range."),
            ("HIDDEN_IN_PROSE", HIDDEN_IN_PROSE, "The part that prose has no use for."),
            ("JOINERS", JOINERS, "What joins or varies the characters before it, as in emoji."),
        )
    )


def _lines(ranges: Sequence[Range]) -> str:
    return "".join(f"  [0x{first:04x}, 0x{last:04x}],\n" for first, last in ranges)
