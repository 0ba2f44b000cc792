"""Long pasted texts: in the input, a short mark stands for each."""

import re

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from codelab_client.characters import HIDDEN_IN_PROSE, in_class, without

#: A paste of more lines or characters is folded.
_LINES, _CHARS = 10, 2_000
_MARK = re.compile(r"\[pasted \d+ (?:lines|characters)(?: #\d+)?\]")
#: prompt_toolkit itself makes the control characters of ASCII and Latin-1 visible.
_HIDDEN = re.compile(f"[{in_class(without(HIDDEN_IN_PROSE, ((0x00, 0xA0),)))}]")


class Pastes:
    """The long texts that were pasted into this window's input."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """What the input shows of a pasted text: the text itself if it is short, else a mark."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= _LINES and len(text) <= _CHARS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        number = next(
            number for number in range(1, len(self._texts) + 2) if self._texts.get(_mark(size, number), text) == text
        )
        mark = _mark(size, number)
        self._texts[mark] = text
        return mark

    def unfolded(self, line: str) -> str:
        """A line of the input with the texts in place of their marks."""
        return _MARK.sub(lambda match: self._texts.get(match[0], match[0]), line)


def _mark(size: str, number: int) -> str:
    return f"[pasted {size}]" if number == 1 else f"[pasted {size} #{number}]"


class VisibleCharacters(Processor):
    """Shows a sign for each character of the input that would look like nothing or turn the text around."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """See Processor. Each character stays one, so that the cursor is where it seems to be."""
        fragments: StyleAndTextTuples = [
            (fragment[0], _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", fragment[1]))
            for fragment in transformation_input.fragments
        ]
        return Transformation(fragments)
