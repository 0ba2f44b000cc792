"""Characters that nobody sees, or that change what is seen: one list for the terminal, for editors and for the page.

The page has it in clients/web/src/conversation/characters.ts, which `make docs` writes.
"""

import re
from collections.abc import Sequence

#: The first and the last code point of a range.
Range = tuple[int, int]

#: Default_Ignorable_Code_Point of Unicode 17 (DerivedCoreProperties.txt): nothing is drawn.
IGNORABLE: Sequence[Range] = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
#: Controls except newline and tab, ends of lines that only some programs know, surrogates, annotations, places of
#: objects, controls of hieroglyphs, noncharacters: a terminal obeys them, or each program draws them in its own way.
CONTROLS: Sequence[Range] = (
    (0x0000, 0x0008),
    (0x000B, 0x001F),
    (0x007F, 0x009F),
    (0x2028, 0x2029),
    (0xD800, 0xDFFF),
    (0xFDD0, 0xFDEF),
    (0xFFF9, 0xFFFC),
    (0x13430, 0x13440),
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)),
)
#: Letters and signs that look like a space or like nothing: spaces other than U+0020, fillers, the empty Braille cell.
BLANK: Sequence[Range] = (
    (0x00A0, 0x00A0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x2800, 0x2800),
    (0x3000, 0x3000),
    (0x13441, 0x13442),
    (0x16FE4, 0x16FE4),
    (0x1D159, 0x1D159),
)
#: What joins or varies the characters before it, as in emoji, Persian and Hindi: readable in prose.
JOINERS: Sequence[Range] = ((0x200C, 0x200D), (0xFE0E, 0xFE0F))


def without(ranges: Sequence[Range], excluded_ranges: Sequence[Range]) -> Sequence[Range]:
    """The code points of `ranges` that are in none of `excluded_ranges`."""
    remaining = list(ranges)
    for start, end in excluded_ranges:
        remaining = [
            part
            for first, last in remaining
            for part in ((first, min(last, start - 1)), (max(first, end + 1), last))
            if part[0] <= part[1]
        ]
    return tuple(dict.fromkeys(remaining))


#: All of it, in order.
INVISIBLE: Sequence[Range] = tuple(sorted((*IGNORABLE, *CONTROLS, *BLANK)))
#: The part that prose has no use for.
HIDDEN_IN_PROSE: Sequence[Range] = without(INVISIBLE, (*JOINERS, *BLANK))


def in_class(ranges: Sequence[Range]) -> str:
    """The ranges as the inside of a character class of `re`."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)
