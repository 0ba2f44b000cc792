"""Strings for a JSON Schema: lengths, formats, regular expressions."""

import re
import warnings
from collections.abc import Mapping
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as sre_parser  # type: ignore[attr-defined]

_FORMATS = {
    "date-time": "2025-01-{:02d}T12:00:00Z",
    "date": "2025-01-{:02d}",
    "time": "12:00:{:02d}Z",
    "duration": "P{}D",
    "email": "demonstration{}@example.com",
    "idn-email": "demonstration{}@example.com",
    "hostname": "host{}.example.com",
    "idn-hostname": "host{}.example.com",
    "ipv4": "192.0.2.{}",
    "ipv6": "2001:db8::{}",
    "uri": "https://example.com/{}",
    "uri-reference": "/demonstration/{}",
    "iri": "https://example.com/{}",
    "iri-reference": "/demonstration/{}",
    "uri-template": "https://example.com/{{id}}/{}",
    "uuid": "00000000-0000-4000-8000-{:012d}",
    "json-pointer": "/demonstration/{}",
    "relative-json-pointer": "{}/demonstration",
    "regex": "^demonstration{}$",
}
_CLASSES = {"CATEGORY_DIGIT": "0123456789", "CATEGORY_WORD": "aZ9_", "CATEGORY_SPACE": " \t"}
_TRIED = [chr(code) for code in (97, 48, 65, 45, 46, 95, 32, *range(33, 127))] + ["é", "я", "中", "\n"]


def string(node: Mapping[str, Any], text: str, attempt: int = 0) -> str:
    """A string for `node`, `text` itself where nothing forbids it; other attempts give other strings."""
    low, high = node.get("minLength", 0), node.get("maxLength", 10**6)
    if isinstance(node.get("pattern"), str):
        return matching(node["pattern"], low, high, attempt)
    if node.get("format") in _FORMATS:
        made = _FORMATS[node["format"]].format(1 + attempt % 28)
        if low <= len(made) <= high:
            return made
    if attempt:
        text = f"{text} {attempt}"
    if len(text) > high:
        number = str(attempt)
        text = (text[: high - len(number)] + number)[:high] if attempt and high >= len(number) else text[:high]
    return text if len(text) >= low else (text + " " + "x" * low)[:low] if text else "x" * low


def matching(pattern: str, low: int = 0, high: int = 10**6, attempt: int = 0) -> str:
    """A string that `pattern` is found in, of a length between `low` and `high` where that can be had."""
    try:
        tree = sre_parser.parse(_python(pattern))
        searched = re.compile(_python(pattern))
    except (re.error, RecursionError, OverflowError):
        return "x" * max(low, 1)
    best = ""
    for extra in (attempt, *range(9), max(0, low - 2), low, max(0, high - 2)):
        for wide in (False, True):
            made = _Maker(extra if wide else 0, attempt).sequence(tree)
            # Where the pattern is open at its end, other attempts differ there.
            varied = [f"{made}{attempt}"] if attempt else []
            for candidate in [*varied, *_sized(made, low)]:
                if low <= len(candidate) <= high and searched.search(candidate):
                    return candidate
                if not best and searched.search(candidate):
                    best = candidate
    return best


def _sized(made: str, low: int) -> list[str]:
    """`made`, and longer forms of it for patterns without anchors."""
    missing = low - len(made)
    if missing <= 0:
        return [made]
    return [made, made + "x" * missing, made + "0" * missing, made + made[-1:] * missing, "x" * missing + made]


def _python(pattern: str) -> str:
    """ECMA 262 spelled for `re`: the differences that occur in schemas."""
    pattern = re.sub(r"\\p\{(?:L|Lu|Ll|Letter|Alphabetic)\}", "[A-Za-z]", pattern)
    pattern = re.sub(r"\\p\{(?:N|Nd)\}", "[0-9]", pattern)
    pattern = re.sub(r"\\u\{?([0-9A-Fa-f]{4})\}?", r"\\u\1", pattern)
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    return pattern.replace("\\/", "/").replace("\\d", "[0-9]") if "[" not in pattern else pattern.replace("\\/", "/")


class _Maker:
    """Walks the parsed pattern; `extra` more repetitions where they are allowed, other characters on other attempts."""

    def __init__(self, extra: int, attempt: int) -> None:
        self.extra, self.attempt = extra, attempt
        self.groups: dict[int, str] = {}

    def sequence(self, items: Any) -> str:
        return "".join(self.one(operation, argument) for operation, argument in items)

    def one(self, operation: Any, argument: Any) -> str:
        if operation is sre.LITERAL:
            return chr(argument)
        if operation is sre.NOT_LITERAL:
            return next(char for char in _TRIED if ord(char) != argument)
        if operation is sre.ANY:
            return "a"
        if operation is sre.IN:
            return self.member(argument)
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)):
            low, high, sub = argument
            return "".join(self.sequence(sub) for _ in range(min(int(high), int(low) + self.extra)))
        if operation is sre.BRANCH:
            branches = argument[1]
            return self.sequence(branches[self.attempt % len(branches)])
        if operation is sre.SUBPATTERN:
            made = self.sequence(argument[3])
            if argument[0] is not None:
                self.groups[argument[0]] = made
            return made
        if operation is getattr(sre, "ATOMIC_GROUP", None):
            return self.sequence(argument)
        if operation is sre.GROUPREF:
            return self.groups.get(argument, "")
        return ""  # anchors and looking around: whether the result matches is checked afterwards

    def member(self, members: Any) -> str:
        negated = bool(members) and members[0][0] is sre.NEGATE
        if negated:
            allowed = [char for char in _TRIED if not _in(members[1:], char)]
        else:
            allowed = [char for char in _TRIED if _in(members, char)] or [_first(members)]
        return allowed[self.attempt % len(allowed)] if allowed else "\u2603"


def _in(members: Any, char: str) -> bool:
    for operation, argument in members:
        if operation is sre.LITERAL and ord(char) == argument:
            return True
        if operation is sre.RANGE and argument[0] <= ord(char) <= argument[1]:
            return True
        if operation is sre.CATEGORY:
            name = str(argument)
            inside = (
                re.match({"DIGIT": "[0-9]", "WORD": r"\w", "SPACE": r"\s"}[name.rsplit("_", 1)[-1]], char) is not None
            )
            if inside != ("_NOT_" in name):
                return True
    return False


def _first(members: Any) -> str:
    operation, argument = members[0]
    return chr(argument[0]) if operation is sre.RANGE else chr(argument) if operation is sre.LITERAL else "a"
