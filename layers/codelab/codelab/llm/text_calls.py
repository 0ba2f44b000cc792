"""Calls that a model writes as text, for the strategy `calls` and models whose row says that they do so.

A call is the whole rest of an answer, in one of three forms: `<tool_call>{…}</tool_call>`, a code fence of JSON, or
the bare object at the beginning of a line, where the object has nothing but the `name` of an offered function and
`arguments`. A text that stands anywhere in what the model was sent is a quotation, and so is what is not the rest.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from codelab.llm.native_calls import NativeCall

#: The openings, each with what closes it. All but the first stand at the beginning of a line.
_TAG, _FENCE = "<tool_call>", "```"
_CLOSINGS = {_TAG: "</tool_call>", _FENCE: "```", "": ""}
_LANGUAGE = "json"
_FIELDS = ("name", "arguments")
#: Where an opening may begin.
_CANDIDATE = re.compile(r"<|^[ \t]{0,9}[`{]", re.MULTILINE)
#: The beginning of a line that may go on as an opening.
_INDENTATION = re.compile(r"^[ \t]{0,9}\Z", re.MULTILINE)
_SPACE = re.compile(r"\s{0,99}")
_NO_WORD = re.compile(r"[\W_]+")
#: Escapes, however often a text was put into JSON, and the numbers of lines.
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf])?")
_LINE_NUMBER = re.compile(r"^[ \t]{0,20}\d{1,9}\W", re.MULTILINE)
_ENTITY = re.compile(r"&(?:[a-z]{2,6}|#\d{1,7}|#x[0-9a-f]{1,6});", re.IGNORECASE)


class TextCalls:
    """Holds back what may be a call in a growing text. names: of the offered functions. body: what the model was sent.

    Text is held back from an opening on until it goes on in another way than a call of an offered function does; from
    the first one that does, until the end of the answer.
    """

    def __init__(self, names: Collection[str], body: Mapping[str, Any]) -> None:
        self._names, self._body = frozenset(names), body
        self._quoted_names = [f'"{name}"' for name in self._names]
        self._longest = max(map(len, self._quoted_names), default=0)
        self._held: list[str] = []
        self._opening: str | None = None
        self._is_at_line_start = True
        #: The call, once the text has ended.
        self.call: NativeCall | None = None

    @property
    def held(self) -> str:
        """The end of the text, which is held back."""
        return "".join(self._held)

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that is certainly none of a call."""
        if not piece:
            return ""
        self._held.append(piece)
        if self._opening is not None:
            return ""
        text = self.held
        start = self._undecided_from(text)
        self._held = [text[start:]] if start < len(text) else []
        if start:
            self._is_at_line_start = text[start - 1] == "\n"
        return text[:start]

    def finish(self, *, has_calls: bool) -> str:
        """End the text; return the rest of it, if that is no call. has_calls: the answer has native calls."""
        text = self.held
        if self._opening is not None and not has_calls:
            self.call = self._call(text, self._opening)
        if self.call is not None:
            return ""
        self._held = []
        return text

    def _undecided_from(self, text: str) -> int:
        """Where the text begins that may be a call, or its end."""
        # A text that does not begin at the beginning of a line is shown as one that does not.
        offset = 0 if self._is_at_line_start else 1
        line = text if self._is_at_line_start else "." + text
        for match in _CANDIDATE.finditer(line):
            opening, is_decided = self._opening_at(line, match.end() - 1)
            if opening is None:
                continue
            if is_decided:
                self._opening = opening
            return match.start() - offset
        indentation = _INDENTATION.search(line)
        return len(text) if indentation is None else max(0, indentation.start() - offset)

    def _opening_at(self, text: str, position: int) -> tuple[str | None, bool]:
        """The opening at a position, None if there is none, and whether it is certain that a call follows."""
        opening = {"<": _TAG, "`": _FENCE}.get(text[position], "")
        if not text.startswith(opening, position):
            return (opening if opening.startswith(text[position : position + len(opening)]) else None), False
        position += len(opening)
        if opening == _FENCE:
            language = text[position : position + len(_LANGUAGE)].lower()
            if language == _LANGUAGE:
                position += len(_LANGUAGE)
            elif _LANGUAGE.startswith(language):  # it may go on so, unless it has none
                return opening, False
        for token in ("{", '"name"', ":"):
            position = _behind_space(text, position)
            if not text.startswith(token, position):
                return (opening if token.startswith(text[position : position + len(token)]) else None), False
            position += len(token)
        position = _behind_space(text, position)
        rest = text[position : position + self._longest]
        if any(map(rest.startswith, self._quoted_names)):
            return opening, True
        return (opening if any(name.startswith(rest) for name in self._quoted_names) else None), False

    def _call(self, text: str, opening: str) -> NativeCall | None:
        """The call that a text is as a whole, and that is no quotation."""
        inner, closing = text.strip().removeprefix(opening), _CLOSINGS[opening]
        if not inner.endswith(closing):
            return None
        inner = inner[: len(inner) - len(closing)]
        if opening == _FENCE and inner[: len(_LANGUAGE)].lower() == _LANGUAGE:
            inner = inner[len(_LANGUAGE) :]
        try:
            value = json.loads(inner, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict) or value.keys() != {*_FIELDS}:
            return None
        name, arguments = value["name"], value["arguments"]
        if name not in self._names or not isinstance(arguments, dict) or self._is_quoted(inner, value):
            return None
        return NativeCall(name, json.dumps(arguments, ensure_ascii=False))

    def _is_quoted(self, text: str, value: Any) -> bool:
        """Whether the call stands in what was sent: its words in their order, whatever is between them.

        Native calls of the conversation are the model's own, which it may repeat.
        """
        sent = "\n".join(_texts([self._body["tools"], [message.get("content") for message in self._body["messages"]]]))
        places = _words(sent), _words(_LINE_NUMBER.sub("", sent))
        forms = [_words(text), *(_words(json.dumps(_in_order(value, names))) for names in (_FIELDS, _FIELDS[::-1]))]
        return any(form in place for form in forms for place in places)


def _in_order(value: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value[name] for name in names}


def _behind_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises ValueError if a name stands in it twice: programs do not agree on which one counts."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return value


def _words(text: str) -> str:
    """The letters and digits of a text, of one case: quotations differ in spaces, quotes, escapes and fences."""
    import html  # most answers have no call as text

    text = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", text)
    return _NO_WORD.sub("", unicodedata.normalize("NFKD", plain)).casefold()


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, names included, in order."""
    stack: list[Any] = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            stack.extend(item for pair in reversed(part.items()) for item in reversed(pair))
        elif isinstance(part, list | tuple):
            stack.extend(reversed(part))
