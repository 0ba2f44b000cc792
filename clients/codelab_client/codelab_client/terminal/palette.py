"""The terminal's colours, for dark and for light backgrounds. Each can be read on both ends of its kind of background.

They are colours of the xterm palette of 256, so that they are the same everywhere: the sixteen basic ones are whatever
the user's theme makes of them.
"""

from dataclasses import asdict, dataclass

from prompt_toolkit.styles import Style
from rich.theme import Theme


@dataclass(frozen=True)
class Palette:
    """quiet: what is less important, in place of dimmed text."""

    quiet: str
    error: str
    warning: str
    success: str
    accent: str


DARK = Palette(quiet="#b2b2b2", error="#ff8787", warning="#ffd75f", success="#87d787", accent="#87d7ff")
LIGHT = Palette(quiet="#585858", error="#af0000", warning="#5f5f00", success="#005f00", accent="#005f87")

_MENU = {
    "completion-menu": "bg:#444444 #eeeeee",
    "completion-menu.completion": "bg:#444444 #eeeeee",
    "completion-menu.completion.current": "noreverse bg:#005f87 #ffffff",
    "completion-menu.meta.completion": "bg:#303030 #d0d0d0",
    "completion-menu.meta.completion.current": "bg:#005f87 #ffffff",
}


def rich_theme(palette: Palette) -> Theme:
    """The names of styles that cards and answers use."""
    bold = {f"markdown.h{level}": "bold" for level in range(1, 7)}
    return Theme(
        {
            **asdict(palette),
            **bold,
            "question": f"bold {palette.warning}",
            "markdown.code": palette.accent,
            "markdown.code_block": "none",
            "markdown.item.bullet": palette.warning,
            "markdown.item.number": palette.accent,
            "markdown.block_quote": palette.quiet,
            "markdown.hr": palette.quiet,
            "markdown.link": palette.accent,
            "markdown.link_url": f"underline {palette.accent}",
            "markdown.table.border": palette.quiet,
            "markdown.table.header": f"bold {palette.accent}",
        }
    )


def prompt_style(palette: Palette) -> Style:
    """The styles of what is live."""
    return Style.from_dict(
        {
            "live": palette.quiet,
            "ask": f"bold {palette.warning}",
            "prompt": f"bold {palette.accent}",
            "bottom-toolbar": f"noreverse {palette.quiet}",
            "bottom-toolbar.text": "noreverse",
            **_MENU,
        }
    )
