"""What `/copy` copies: the last answer, or a block of code in it, through the terminal (OSC 52)."""

import base64
import re

from codelab_client.safe_text import safe

#: Many terminals take no more bytes, encoded.
_MOST_BYTES = 75_000
_BLOCK = re.compile(r"^( {0,3})(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\2[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)


class NothingToCopy(Exception):
    """The text says why."""


def selection(answer: str, argument: str) -> str:
    """What is copied of an answer. argument: empty for all of it, `code` for the last block, or a block's number.

    Characters that nobody sees are spelled out, as on the screen. Raises NothingToCopy.
    """
    blocks = [match[3] for match in _BLOCK.finditer(answer)]
    if not answer.strip():
        raise NothingToCopy("There is no answer yet")
    if not argument:
        return safe(answer.strip("\n"))
    if argument == "code":
        argument = str(len(blocks))
    if not argument.isdecimal() or not 1 <= int(argument) <= len(blocks):
        raise NothingToCopy(f"The last answer has {len(blocks)} blocks of code: /copy, /copy code, /copy NUMBER")
    return safe(blocks[int(argument) - 1])


def sequence(text: str) -> str:
    """What makes the terminal copy a text. Raises NothingToCopy if that is too much for it."""
    data = base64.b64encode(text.encode())
    if len(data) > _MOST_BYTES:
        raise NothingToCopy(f"{len(text):,} characters are more than terminals take")
    return f"\x1b]52;c;{data.decode()}\x07"
