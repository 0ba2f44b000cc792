"""What `/copy` copies: the last answer, or a block of code in it, and the ways to the user's clipboard and from it.

The ways are a program of this machine, tmux, which ignores what programs in it write to the terminal, or the terminal
itself (OSC 52), also over SSH.
"""

import base64
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from codelab_client.safe_text import safe

#: Many terminals take no more bytes, encoded.
_MOST_BYTES = 75_000
#: How a PNG begins.
_PNG = b"\x89PNG\r\n\x1a\n"
#: Seconds that a program may take.
_PATIENCE_S = 5


class NothingToCopy(Exception):
    """The text says why."""


def selection(answer: str, argument: str) -> str:
    """What is copied of an answer. argument: empty for all of it, `code` for the last block, or a block's number.

    Characters that nobody sees are spelled out, as on the screen. Raises NothingToCopy.
    """
    if not answer.strip():
        raise NothingToCopy("There is no answer yet")
    if not argument:
        return safe(answer.strip("\n"))
    blocks = _blocks(answer)
    if argument == "code":
        argument = str(len(blocks))
    if not argument.isdecimal() or not 1 <= int(argument) <= len(blocks):
        raise NothingToCopy(f"The last answer has {len(blocks)} blocks of code: /copy, /copy code, /copy NUMBER")
    return safe(blocks[int(argument) - 1])


def _blocks(answer: str) -> list[str]:
    """The fenced blocks of a Markdown text, without the indentation of what they are in, such as a list."""
    from markdown_it import MarkdownIt  # late, because the prompt should be there soon

    return [token.content for token in MarkdownIt().parse(answer) if token.type == "fence"]


def sequence(text: str) -> str:
    """What makes the terminal copy a text. Raises NothingToCopy if that is too much for it."""
    data = base64.b64encode(text.encode())
    if len(data) > _MOST_BYTES:
        raise NothingToCopy(f"{len(text):,} characters are more than terminals take")
    return f"\x1b]52;c;{data.decode()}\x07"


def copied_by(text: str, environment: Mapping[str, str], workspace: Path) -> str:
    """Copy a text with a program, which may not be one of the workspace. Returns its name; empty if none could."""
    from codelab_client.tools.processes import own_path

    path = own_path(environment, workspace)
    for name, *options in _programs(environment):
        program = shutil.which(name, path=path)
        if program is not None and _takes([program, *options], text, environment):
            return name
    return ""


def _programs(environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The programs that may reach the clipboard of who sits at the terminal: over SSH not those of this machine."""
    if environment.get("TMUX"):
        yield "tmux", "load-buffer", "-w", "-"
    elif environment.get("SSH_CONNECTION"):
        return
    elif sys.platform == "darwin":
        yield ("pbcopy",)
    elif environment.get("WAYLAND_DISPLAY"):
        yield ("wl-copy",)
    elif environment.get("DISPLAY"):
        yield "xclip", "-selection", "clipboard"
        yield "xsel", "--clipboard", "--input"


def _takes(command: Sequence[str], text: str, environment: Mapping[str, str]) -> bool:
    """Give a program a text. Its output is nobody's: those of X and Wayland stay, to give the text to others."""
    quiet = subprocess.DEVNULL
    try:
        ended = subprocess.run(
            command, input=text.encode(), stdout=quiet, stderr=quiet, timeout=_PATIENCE_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def pasted_image(environment: Mapping[str, str], workspace: Path) -> bytes | None:
    """The image in the clipboard as PNG, from a program; None without an image, or without a program for it."""
    from codelab_client.tools.processes import own_path

    path = own_path(environment, workspace)
    for name, *options in _image_programs(environment):
        program = shutil.which(name, path=path)
        if program is not None and (data := _given([program, *options], environment)):
            return data
    return None


def _image_programs(environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The programs that give the image in the clipboard of who sits at the terminal."""
    if environment.get("SSH_CONNECTION"):
        return
    if sys.platform == "darwin":
        yield "pngpaste", "-"
    if environment.get("WAYLAND_DISPLAY"):
        yield "wl-paste", "--type", "image/png"
    if environment.get("DISPLAY"):
        yield "xclip", "-selection", "clipboard", "-target", "image/png", "-out"


def _given(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """The PNG that a program gives; empty if it gives none."""
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return ended.stdout if ended.returncode == 0 and ended.stdout.startswith(_PNG) else b""
