"""The text of a file, and the form in which the file keeps it: what is written back differs only where it should.

A file without a byte order mark that is not UTF-8 does not say its encoding. The rules here are narrow: what fits none
of them is no text. A wrong guess changes no byte that is not edited, because every guess decodes and encodes without
loss.
"""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

from codelab_client.tools.failure import ToolFailure

_MARK = "\ufeff"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Bytes that no text in a language's own encoding has.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_HIGH = re.compile(rb"[\x80-\xff]+")
#: Bytes of the beginning, by which an encoding is guessed.
_SAMPLE = 100_000
#: Share of characters that must be usual ones.
_USUAL = 0.8
#: Bytes above ASCII in a row, at most, in a language with Latin letters.
_LATIN_RUN = 4
#: The letters and the usual signs of windows-1252, of which ISO 8859-1 has those from A0.
_LATIN = frozenset(
    b"\x80\x82\x84\x85\x8a\x8b\x8c\x8e\x91\x92\x93\x94\x95\x96\x97\x99\x9a\x9b\x9c\x9e\x9f"
    b"\xa0\xa1\xa3\xa7\xa9\xaa\xab\xae\xb0\xb1\xb2\xb3\xb4\xb5\xb7\xb9\xba\xbb\xbc\xbd\xbe\xbf"
) | frozenset(range(0xC0, 0x100))
#: Korean syllables end here in EUC-KR, which looks like GBK; Chinese of some length goes on.
_LAST_KOREAN, _CERTAIN = 0xC8, 8


@dataclass(frozen=True)
class FileText:
    """A text file. text: with the byte order mark, if there is one. encoding: its IANA name in lower case."""

    text: str
    encoding: str = "utf-8"


def read_text(data: bytes) -> FileText | None:
    """The text of a file; None if it is binary or in an encoding that is not known."""
    for mark, encoding in _MARKS:
        if data.startswith(mark) and (file_text := _decoded(data, encoding)) is not None:
            return file_text
    file_text = _decoded(data, "utf-8")
    if file_text is not None or _CONTROL.search(data):
        return file_text
    encoding = _guess(data if len(data) <= _SAMPLE else data[: data.rfind(b"\n", 0, _SAMPLE) + 1] or data[:_SAMPLE])
    return _decoded(data, encoding) if encoding else None


def write_text(text: str, encoding: str, name: str) -> bytes:
    """The bytes of a text. name: the file's name, for the error. Raises ToolFailure ENCODING_ERROR."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        if encoding == "utf-8":
            raise ToolFailure("ENCODING_ERROR", f"{name} cannot be encoded as UTF-8") from None
        line = text.count("\n", 0, error.start) + 1
        reason = f"{name} is in {encoding}, which does not have U+{ord(text[error.start]):04X} (line {line})"
        raise ToolFailure("ENCODING_ERROR", f"{reason}: nothing was written") from None


def kept(content: str, before: FileText | None) -> str:
    """A new content with the byte order mark and, if all its lines end otherwise, the line ends of the old one."""
    if before is None:
        return content
    if has_only_crlf(before.text) and "\r" not in content:
        content = content.replace("\n", "\r\n")
    return content if not before.text.startswith(_MARK) or content.startswith(_MARK) else _MARK + content


def written(before: bytes | None, content: str) -> str:
    """The text that `write_file` makes of a content, in place of these bytes; what is binary leaves no form."""
    return kept(content, None if before is None else read_text(before))


def has_only_crlf(text: str) -> bool:
    """Whether all lines end with CRLF, and there is one."""
    ends = text.count("\n")
    return ends > 0 and text.count("\r\n") == ends


def _decoded(data: bytes, encoding: str) -> FileText | None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or text.encode(encoding) != data else FileText(text, encoding)


def _guess(data: bytes) -> str:
    """The encoding of bytes that are not UTF-8; empty if it is not clear."""
    runs = [match[0] for match in _HIGH.finditer(data)]
    if not runs:
        return ""
    high = b"".join(runs)
    if _is_damaged(data, len(high)):
        return ""
    if _is_chinese(data):
        return "gbk"
    if (cyrillic := _cyrillic(high)) and len(high) > 2 * len(runs):
        return cyrillic
    if max(map(len, runs)) <= _LATIN_RUN and _share(byte in _LATIN for byte in high) >= _USUAL:
        return "windows-1252" if any(byte < 0xA0 for byte in high) else "iso-8859-1"
    return ""


def _is_damaged(data: bytes, high: int) -> bool:
    """Whether it is UTF-8 with lone surrogates, or with a few other bytes between its characters."""
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        strange = sum("\udc80" <= character <= "\udcff" for character in data.decode("utf-8", "surrogateescape"))
        return 2 * strange < high
    return True


def _is_chinese(data: bytes) -> bool:
    """Whether most characters are the usual ones of GB 2312, which come first in it, and its signs."""
    file_text = _decoded(data, "gbk")
    if file_text is None:
        return False
    pairs = [character.encode("gbk") for character in file_text.text if character > "\x7f"]
    usual = [pair for pair in pairs if 0xB0 <= pair[0] <= 0xD7 and pair[1] >= 0xA1]
    signs = sum(0xA1 <= pair[0] <= 0xA3 for pair in pairs)
    is_korean = len(usual) >= _CERTAIN and all(pair[0] <= _LAST_KOREAN for pair in usual)
    return len(usual) > 1 and len(usual) + signs >= _USUAL * len(pairs) and not is_korean


def _cyrillic(high: bytes) -> str:
    """The encoding in which these bytes are words of small Cyrillic letters; empty if they are not."""
    if _share(byte >= 0xC0 or byte in b"\xa8\xb8" for byte in high) < _USUAL:
        return ""
    later = sum(byte >= 0xE0 for byte in high)
    if later > 2 * (len(high) - later):
        return "windows-1251"
    return "koi8-r" if 2 * later < len(high) - later else ""


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / max(1, len(values))
