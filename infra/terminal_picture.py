"""`make screenshots`: a picture of `codelab` in a terminal, docs/images/terminal.svg, from a real conversation.

The local cloud and its demonstration model run on this machine; the picture is what the terminal shows.
"""

import io
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from codelab_local import LocalCloud
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.client.terminals import Terminal

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS, ROWS = 80, 36
CODELAB = [sys.executable, "-m", "codelab_client.command_line"]

_PROJECT = {"main.py": 'def greet(name):\n    print(f"Hello, {name}!")\n\n\ngreet("Ann")\n'}
#: What the user types, and what must be on the screen before.
_SCRIPT = (
    ("/help lists the commands", "Replace “Hello” with “Good morning” in main.py\r"),
    ("Run write_file main.py?", "y"),
    ("was changed", "Run `python3 main.py`\r"),
    ("Run run_command?", ""),
)
#: The user reads before pressing a key (seconds).
_PAUSE_S = 0.8
_THEME = TerminalTheme(
    (22, 24, 29),
    (208, 212, 220),
    [(60, 64, 72), (224, 108, 117), (140, 190, 110), (220, 180, 100), (97, 160, 230), (190, 120, 210), (86, 182, 194),
     (208, 212, 220)],
    [(128, 134, 146), (240, 120, 130), (160, 210, 130), (235, 200, 120), (120, 180, 245), (210, 140, 230),
     (110, 205, 215), (255, 255, 255)],
)  # fmt: skip
#: Of `Console.export_svg`, without a font from the network.
_FORMAT = """\
<svg class="{unique_id}" viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>codelab in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}</defs>
<rect fill="#16181d" width="100%" height="100%" rx="8"/>
<g transform="translate(9, 2)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def played(environment: Mapping[str, str], folder: Path) -> list[Text]:
    """Play the conversation in a folder. Returns the lines of the screen, as they are at its end."""
    for name, content in _PROJECT.items():
        (folder / name).write_text(content, encoding="utf-8")
    with Terminal([*CODELAB, "--session", "tour"], environment, folder, columns=COLUMNS, rows=ROWS) as terminal:
        for shown, typed in _SCRIPT:
            terminal.expect(shown)
            time.sleep(_PAUSE_S)
            terminal.type(typed)
        return terminal.styled_lines()


def svg(lines: list[Text]) -> str:
    """A picture of lines."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in [*lines, Text()]:
        console.print(line, no_wrap=True, highlight=False)
    return console.export_svg(theme=_THEME, code_format=_FORMAT, unique_id="codelab")


def main() -> None:
    with tempfile.TemporaryDirectory() as state, LocalCloud(ROOT / "template.yaml") as cloud:
        folder = Path(state, "work")
        folder.mkdir()
        environment = {**os.environ, "CODELAB_URL": cloud.http, "CODELAB_TOKEN": ""}
        environment |= {"XDG_STATE_HOME": f"{state}/state", "XDG_CONFIG_HOME": f"{state}/config"}
        PICTURE.write_text(svg(played(environment, folder)), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}\n")


if __name__ == "__main__":
    main()
