"""The terminal's colours can be read on dark and on light backgrounds."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from codelab_client.config import ConfigError, config_file, load
from codelab_client.execution import ToolOutcome
from codelab_client.terminal import cards
from codelab_client.terminal.background import background, luminance
from codelab_client.terminal.keyboard import Keyboard
from codelab_client.terminal.palette import DARK, LIGHT, Palette, prompt_style
from prompt_toolkit.keys import Keys
from rich.color import Color

from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.waiting import until

#: Black, and the backgrounds of themes that are in wide use; white, and the same.
BACKGROUNDS: Mapping[str, tuple[Palette, tuple[str, ...]]] = {
    "dark": (DARK, ("#000000", "#1e1e1e", "#282c34", "#002b36", "#2e3440")),
    "light": (LIGHT, ("#ffffff", "#fdf6e3", "#fafafa", "#eff1f5")),
}
ANSWER = (
    "# Title\n\nText `code` [link](http://x)\n\n> quote\n\n- item\n"
    "\n\n1. one\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
CODE = "```python\n@deco\ndef f(x):  # why\n    return x and 'text' + 1\n```\n"


def bright(colour: str) -> float:
    parts = Color.parse(colour).get_truecolor()
    return luminance(*(part / 255 for part in parts))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((bright(one), bright(other)))
    return (lighter + 0.05) / (darker + 0.05)


def printed(palette: Palette, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of each card."""
    monkeypatch.setenv("TERM", "xterm-256color")
    (folder / "a.py").write_text("a\nb\n")
    all_cards = [
        cards.answer(ANSWER + CODE),
        cards.user_message("go"),
        *(cards.notice("text", style) for style in ("quiet", "error", "warning", "bold", "")),
        cards.plan([{"status": status, "text": "x"} for status in ("completed", "in_progress", "pending")]),
        cards.call("write_file", {"path": "a.py", "content": "a\nc\n", "other": 1}, folder),
        cards.call("run_command", {"command": "ls", "cwd": "x"}, folder),
        cards.call("delete_file", {"path": "a.py"}, folder),
        cards.call("other", None, folder),
        cards.finished("run_command", {"command": "ls"}, ToolOutcome({"exit_code": 1, "stdout": "out\n" * 30})),
        cards.finished("run_command", {"command": "ls"}, ToolOutcome.failed("X", "no")),
    ]
    return "".join(cards.rendered(card, 60, colour=True, palette=palette) for card in all_cards)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_every_colour_has_a_contrast_of_at_least_four_and_a_half(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    palette, backgrounds = BACKGROUNDS[name]
    codes = re.findall(r"\x1b\[([0-9;]*)m", printed(palette, tmp_path, monkeypatch))
    numbers = {number for code in codes for number in re.findall(r"38;5;(\d+)", code)}
    others = {part for code in codes for part in re.sub(r"38;5;\d+", "", code).split(";") if part}
    assert others <= {"0", "1", "3", "4", "9"}, "only bold, italic, underlined and struck besides the palette's colours"
    used = {Color.parse(f"color({number})").get_truecolor().hex for number in numbers}
    assert len(used) == len(asdict(palette)), "each is used, and no other"
    for colour in used | set(asdict(palette).values()):  # a terminal with 256 gets the nearest one
        for behind in backgrounds:
            assert contrast(colour, behind) >= 4.5, (colour, behind)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_what_is_live_and_the_menu_can_be_read(palette: Palette) -> None:
    own = set(asdict(palette).values())
    for selector, attributes in prompt_style(palette).style_rules:
        behind = re.search(r"bg:(#\w+)", attributes)
        text = re.search(r"(?:^| )(#\w+)", attributes)
        if behind is not None and text is not None:
            assert contrast(text[1], behind[1]) >= 4.5, selector
        elif text is not None:
            assert text[1] in own, selector


def test_the_setting_comes_first_then_the_terminal_then_the_variable() -> None:
    white, black = b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62c", b"\x1b]11;rgb:1e/1e/1e\x07"
    terminal = {"TERM": "xterm"}
    assert background("", terminal, lambda: white).is_light
    assert not background("", {**terminal, "COLORFGBG": "0;15"}, lambda: black).is_light
    assert background("light", terminal, lambda: black).is_light
    assert not background("dark", terminal, lambda: white).is_light
    assert background("", {**terminal, "COLORFGBG": "0;default;15"}, lambda: b"\x1b[?6c").is_light
    assert not background("", {**terminal, "COLORFGBG": "15;0"}, lambda: b"").is_light
    assert not background("", terminal, lambda: b"\x1b]11;rgb:gg/00/00\x07nonsense").is_light
    assert not background("", {"TERM": "linux"}, lambda: white).is_light


def test_what_was_typed_before_the_answer_is_kept() -> None:
    read = b"he\x1b]11;rgb:ff/ff/ff\x07llo \xc3\xa9\n\x1b[?62c!?\x7f\x07"
    assert background("", {"TERM": "xterm"}, lambda: read).typed == "hello é\r!?\x7f"


def test_an_answer_that_comes_late_is_no_key() -> None:
    near, far = os.openpty()
    with os.fdopen(far) as terminal:
        keyboard = Keyboard(terminal)
        with keyboard.raw_mode():
            os.write(near, b"a\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62cb\x1b[A")
            keys = [key.key for key in keyboard.read_keys()]
    os.close(near)
    assert keys == ["a", "b", Keys.Up]


def test_a_background_is_light_or_dark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    config_file().parent.mkdir(parents=True)
    config_file().write_text('background = "light"')
    assert load(tmp_path).background == "light"
    config_file().write_text('background = "blue"')
    with pytest.raises(ConfigError, match="must be light or dark"):
        load(tmp_path)


class LightTerminal(Terminal):
    """One that says that its background is white."""

    def _take(self, piece: bytes) -> None:
        if b"\x1b]11;?" in piece:
            self.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\")


def test_a_terminal_that_says_it_is_light_gets_dark_text(environment: dict[str, str], folder: Path) -> None:
    with LightTerminal(CODELAB, environment, folder) as terminal:
        terminal.expect("/help lists the commands")
        until(lambda: b"\x1b[38;5;240m" in terminal.raw)  # #585858
        assert b"\x1b[38;5;249m" not in terminal.raw
        terminal.type("hello")
        terminal.expect("\n› hello")
