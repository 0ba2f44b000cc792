"""Separates a model's thoughts from its answer if one text contains both.

Some endpoints put thoughts into the text of the answer, as `<reasoning>…</reasoning>` (gpt-oss on Amazon Bedrock, one
block per chunk), `<think>…</think>` (DeepSeek, Qwen, and servers without a reasoning parser), `<thinking>` or
`<thought>`. A `Separator` takes such a text in pieces, cut anywhere, and returns the answer without the thoughts.

- Tags may have capitals and attributes. Inside a JSON string, a tag belongs to the answer.
- A block that is never closed is a thought up to the end of the text. The same tag nests inside a block. Models also
  mention tags, so if more are opened than closed, the answer begins after the last closing tag.
- A closing tag without an opening one makes everything before it a thought, because some templates write the opening
  tag into the prompt. Text that begins with prose is therefore held back until a tag shows what it is, or until it
  ends; otherwise a draft in unmarked thoughts would be shown. Text that begins with JSON or a code fence is not held
  back.

The cost is linear: each character is looked at once, and once more when held text is released.
"""

from __future__ import annotations

import re

_NAMES = "think|thinking|thought|reasoning"
_TAG = re.compile(rf"<(/?)({_NAMES})(?:\s[^<>]*)?>", re.IGNORECASE)
_SAME_TAG = {name: re.compile(rf"<(/?){name}(?:\s[^<>]*)?>", re.IGNORECASE) for name in _NAMES.split("|")}
#: The beginning of a tag, with attributes of limited length.
_TAG_BEGUN = re.compile(rf"<(?:/?[a-z]{{0,9}}|/?(?:{_NAMES})\s[^<>]{{0,99}})\Z", re.IGNORECASE)
_TAG_LENGTH = 120

_OBJECT = re.compile(r'\{\s{0,99}["}]')
_OBJECT_BEGUN = re.compile(r"\{\s{0,99}\Z")
_TAG_OR_OBJECT = re.compile(r'<|\{\s{0,99}(?:["}]|\Z)')
_STRUCTURE = re.compile(r'["{}\[\]<]')
_STRING_END = re.compile(r'["\\]')

# Where in the text we are: at the start (only space and thoughts so far), in prose that is held back, outside of JSON,
# in the structure of JSON, in one of its strings, in a block of thoughts, or in a text for people.
_START, _HOLDING, _OUTSIDE, _STRUCT, _STRING, _THOUGHT, _TEXT = range(7)


class Separator:
    """Feed it pieces, then `finish` it; both return the new text of the answer.

    thoughts: receives the thoughts, in pieces. prose: the answer is an object that may be surrounded by text or a code
    fence. is_text: the answer is a text for people, without the space before it. Only blocks before it are thoughts:
    later tags may be what it is about, and text without an opening tag is not held back. Otherwise the answer is any
    JSON value.
    """

    __slots__ = ("_answered", "_carry", "_depth", "_explained", "_held_pieces", "_inner", "_is_text", "_name",
                 "_nested", "_out", "_outer_state", "_parts", "_prose", "_quiet", "_skip", "_state", "_tail",
                 "_thoughts", "_unread_pieces", "_withdrawn_pieces", "retracted")  # fmt: skip

    def __init__(self, thoughts: list[str], *, prose: bool = False, is_text: bool = False) -> None:
        self._prose = prose
        self._is_text = is_text
        self._state = _START
        self._explained = False  # a tag has shown that this model marks its thoughts
        self._answered = False  # some JSON has begun
        self._carry = ""  # the incomplete beginning of a tag or an object
        self._held_pieces: list[str] = []
        self._tail = ""  # the end of the held text, where a tag may begin
        self._depth = 0  # open brackets of the JSON
        self._skip = False  # the next character of a string is escaped
        self._name = ""  # of the open block
        self._nested = 0
        self._outer_state = _START  # where the open block began
        # The tag that closed a nested block, and the text since then, which is a thought or the answer.
        self._inner: list[str] | None = None
        self._withdrawn_pieces: list[str] = []  # JSON before a closing tag without an opening one
        self._quiet = False  # inside JSON, where only a "<" matters
        self._unread_pieces: list[str] = []  # what has arrived since then
        self._out: list[str] = []  # the answer's text of the current piece
        self._parts: list[str] = []
        self._thoughts = thoughts
        #: Whether text that was returned turned out to be a thought. Known after `finish`.
        self.retracted = False

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._parts)

    @property
    def begun(self) -> bool:
        """Whether anything but space has arrived."""
        return self._state != _START or bool(self._carry)

    @property
    def complete(self) -> bool:
        """Whether the JSON of the answer is closed."""
        text = "".join(self._unread_pieces)
        self._unread_pieces.clear()
        self._walk(text)
        self._given()
        return self._answered and self._state == _OUTSIDE

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that certainly belongs to the answer."""
        if self._state == _TEXT:
            self._parts.append(piece)
            return piece
        if self._quiet:
            if "<" not in piece:  # nearly all pieces of a long answer
                self._unread_pieces.append(piece)
                return piece
            returned_text = "".join(self._unread_pieces)
            self._unread_pieces.clear()
            self._walk(returned_text + piece)
            return self._given()[len(returned_text) :]
        self._walk(piece)
        return self._given()

    def finish(self) -> str:
        """End the text; return the rest of the answer."""
        self._parts.extend(self._unread_pieces)
        remainder, self._carry = self._carry, ""
        while self._state == _HOLDING or self._inner is not None:
            pieces = [*self._held_pieces, *(self._inner or ())[1:], remainder]
            self._state, self._explained, self._held_pieces, self._inner = _START, True, [], None
            self._walk("".join(pieces))
            remainder, self._carry = self._carry, ""
        (self._thoughts if self._state == _THOUGHT else self._out).append(remainder)
        answer_text = self._given()
        if self._withdrawn_pieces:
            self.retracted = bool(self.text.strip())
            (self._thoughts if self.retracted else self._parts).extend(self._withdrawn_pieces)
        return answer_text

    def _given(self) -> str:
        self._quiet = self._state in (_STRUCT, _STRING) and not self._carry
        if not self._out:
            return ""
        text = "".join(self._out)
        self._out.clear()
        self._parts.append(text)
        return text

    def _walk(self, piece: str) -> None:
        if self._carry:
            piece = self._carry + piece
            self._carry = ""
        position, end = 0, len(piece)
        while position < end:
            state = self._state
            if state == _STRING:
                position = self._string(piece, position)
            elif state == _STRUCT:
                position = self._structure(piece, position)
            elif state == _THOUGHT:
                position = self._thought(piece, position)
            elif state == _OUTSIDE:
                position = self._outside(piece, position)
            elif state == _HOLDING:
                position = self._hold(piece, position)
            elif state == _TEXT:
                self._out.append(piece[position:])
                position = end
            else:
                position = self._start(piece, position)

    # Each of these takes the piece from `position` on and returns how far it got.

    def _start(self, piece: str, position: int) -> int:
        start = position
        while start < len(piece) and piece[start].isspace():
            start += 1
        if not self._is_text:
            self._out.append(piece[position:start])
        if start == len(piece):
            return start
        head = piece[start]
        if head == "<":
            return self._tag(piece, start)
        if self._is_text:
            self._state = _TEXT
            return start
        if not self._prose and head in '{["':
            self._answered = True
            self._state = _STRING if head == '"' else _STRUCT
            if head == '"':
                self._out.append(head)
                start += 1
            return start
        if "```".startswith(piece[start : start + 3]) or _OBJECT_BEGUN.match(piece, start):
            if len(piece) < start + 3 or head == "{":
                self._carry = piece[start:]
                return len(piece)
            self._state = _OUTSIDE
        elif self._explained or _OBJECT.match(piece, start):
            self._state = _OUTSIDE
        else:
            self._state = _HOLDING
        return start

    def _hold(self, piece: str, position: int) -> int:
        self._held_pieces.append(piece[position:])
        if self._answered:
            return len(piece)
        window = self._tail + piece[position:]
        self._tail = window[-_TAG_LENGTH:]
        tag_match, object_match = _TAG.search(window), _OBJECT.search(window)
        if object_match is not None and (tag_match is None or object_match.start() < tag_match.start()):
            self._answered = True  # Not certain: the next tag may be inside a string, so wait for the end.
        elif tag_match is not None:
            text = "".join(self._held_pieces)
            self._held_pieces, self._state, self._explained = [], _OUTSIDE, True
            self._walk(text)
        return len(piece)

    def _outside(self, piece: str, position: int) -> int:
        match = _TAG_OR_OBJECT.search(piece, position)
        start = len(piece) if match is None else match.start()
        self._out.append(piece[position:start])
        if match is None:
            return start
        if match.group() == "<":
            return self._tag(piece, start)
        if match.group()[-1] not in '"}':
            self._carry = piece[start:]
            return len(piece)
        self._answered = True
        self._state = _STRUCT
        return start

    def _structure(self, piece: str, position: int) -> int:
        start, end = position, len(piece)
        while position < end:
            match = _STRUCTURE.search(piece, position)
            if match is None:
                position = end
                break
            char, position = match.group(), match.end()
            if char == '"':
                self._state = _STRING
                break
            if char == "<":
                self._out.append(piece[start : position - 1])
                return self._tag(piece, position - 1)
            self._depth += 1 if char in "{[" else -1
            if self._depth <= 0:
                self._depth = 0
                self._state = _OUTSIDE
                break
        self._out.append(piece[start:position])
        return position

    def _string(self, piece: str, position: int) -> int:
        start, end = position, len(piece)
        if self._skip:
            self._skip = False
            position += 1
        while position < end:
            match = _STRING_END.search(piece, position)
            if match is None:
                position = end
                break
            position = match.end()
            if match.group() == '"':
                self._state = _STRUCT if self._depth else _OUTSIDE
                break
            if position == end:
                self._skip = True
            position += 1
        position = min(position, end)
        self._out.append(piece[start:position])
        return position

    def _tag(self, piece: str, position: int) -> int:
        """Take a "<" outside of strings and blocks."""
        tag = _TAG.match(piece, position)
        if tag is None:
            if _TAG_BEGUN.match(piece, position):
                self._carry = piece[position:]
                return len(piece)
            if self._state == _START:
                self._state = _TEXT if self._is_text else _OUTSIDE if self._explained else _HOLDING
                return position
            self._out.append("<")
            return position + 1
        if not tag.group(1):
            self._explained = True
            self._name, self._nested = tag.group(2).lower(), 1
            self._outer_state, self._state = self._state, _THOUGHT
        elif self._state != _STRUCT:
            self._retract()
        return tag.end()

    def _retract(self) -> None:
        """Handle a closing tag without an opening one: everything so far was a thought."""
        pieces = [*self._parts, *self._out]
        (self._withdrawn_pieces if self._answered else self._thoughts).extend(pieces)
        self._parts.clear()
        self._out.clear()
        self._state, self._explained = _START, True

    def _thought(self, piece: str, position: int) -> int:
        tag = _SAME_TAG[self._name].search(piece, position)
        thoughts = self._thoughts if self._inner is None else self._inner
        if tag is None:
            tag_start = piece.rfind("<", position)
            thought_end = tag_start if tag_start >= 0 and _TAG_BEGUN.match(piece, tag_start) else len(piece)
            thoughts.append(piece[position:thought_end])
            self._carry = piece[thought_end:]
            return len(piece)
        thoughts.append(piece[position : tag.start()])
        self._nested += -1 if tag.group(1) else 1
        if not tag.group(1):
            thoughts.append(tag.group())
            return tag.end()
        if self._inner is not None:
            self._thoughts.extend(self._inner)
            self._inner = None
        if self._nested:
            self._inner = [tag.group()]
        else:
            self._state = self._outer_state
        return tag.end()
