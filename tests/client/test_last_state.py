"""The output of a command as a terminal would show it at the end."""

import random

from codelab_client.tools.last_state import last_state

from tests.cases import cases

STATES = {
    "plain text stays": ("a\nb\n\tc", "a\nb\n\tc"),
    "a progress bar": ("10 %\r55 %\r100 %\ndone\n", "100 %\ndone\n"),
    "a shorter text over a longer one": ("loading…\rok", "okading…"),
    "a line that is erased first": ("loading…\r\x1b[Kok\n", "ok\n"),
    "a whole line that is erased": ("loading\x1b[2K\rok", "ok"),
    "colours": ("\x1b[1;31merror\x1b[0m: \x1b[38;5;4mx\x1b[m\n", "error: x\n"),
    "several bars": (
        "a 0 %\nb 0 %\n\x1b[2Aa 50 %\nb 40 %\n\x1b[2Aa 100 %\x1b[K\nb 100 %\x1b[K\n",
        "a 100 %\nb 100 %\n",
    ),
    "what was below": ("one\ntwo\nthree\x1b[2F\x1b[Jnew", "new"),
    "backspaces": ("|\b/\b-\b\\\bok", "ok"),
    "a title and a link": ("\x1b]0;title\x07\x1b]8;;https://x\x1b\\name\x1b]8;;\x1b\\", "name"),
    "columns": ("name\x1b[10Gsize\x1b[3Dx\x1b[2Cy", "name     sxzey"),
    "CRLF of a file": ("a\r\nb\r\n", "a\r\nb\r\n"),
    "CRLF and colours": ("\x1b[31ma\x1b[0m\r\nb\r\n", "a\r\nb\r\n"),
    "a cleared screen keeps what was said": ("error: no\n\x1b[2J\x1b[HWatching\n", "error: no\nWatching\n"),
    "up beyond the top": ("a\n\x1b[99Ab", "b\n"),
    "a sequence that never ends": ("a\x1b]0;open\nb", "a0;open\nb"),
    "the beginning of a line is erased": ("loading: ok\x1b[3D\x1b[1K\n", "         ok\n"),
    "all of a line up to its end is erased from the beginning": ("ab\x1b[9C\x1b[1Kx", "           x"),
    "the screen above is erased": ("error: no\nab\x1b[1D\x1b[1Jc\n", "error: no\n c\n"),
    "the cursor is saved and restored": ("0 %\n\x1b7log\n\x1b8\x1b[A100 %\n", "100 %\nlog\n"),
    "it is saved the other way": ("a\x1b[sbc\x1b[uX", "aXc"),
    "where the cursor was is gone": ("a\nb\x1b7\x1b[A\x1b[J\x1b8c", "ac"),
    "wide characters": ("日本語 0 %\r日本語 9 %", "日本語 9 %"),
    "columns of wide characters": ("日本\x1b[5Gx\x1b[3Gab", "日abx"),
    "half of a wide character is overwritten": ("日本\x1b[2Gx", " x本"),
    "half of one is erased": ("日本\x1b[2G\x1b[K", " "),
    "emoji in a progress bar": ("🎉🎉  1\r🎉🎉🎉", "🎉🎉🎉1"),
    "accents": ("e\u0301x\rab", "ab"),
    "a lone escape": ("a\x1b", "a"),
}


@cases(("output", "state"), STATES.values(), ids=STATES)
def test_the_last_state_is_left(output: str, state: str) -> None:
    assert last_state(output) == state


def test_no_output_grows_without_bound() -> None:
    chance = random.Random(7)
    pieces = [
        "\n",
        "\r",
        "\b",
        "x" * 50,
        "\x1b[500C",
        "\x1b[999999999G",
        "\x1b[A",
        "\x1b[J",
        "\x1b[1K",
        "\x1b7",
        "\x1b8",
        "日e\u0301",
        "\x1b[H",
        "\x1b]0;",
    ]
    hostile = [
        "\n\x1b[99999Cx" * 30_000,
        "x" * 200_000 + "\ry" * 100_000,
        "\x1b]" * 100_000,
        "\x1b[" + "1" * 300_000,
        "".join(chance.choice(pieces) for _ in range(40_000)),
    ]
    for output in hostile:
        assert len(last_state(output)) <= len(output) + 100_000
