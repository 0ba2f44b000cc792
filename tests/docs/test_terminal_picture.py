"""The picture of the terminal that README.md begins with."""

import os
import re
from html import unescape
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from infra.terminal_picture import PICTURE, played, svg


def texts(picture: str) -> list[str]:
    """What a reader sees, in one line of each row; without the counts of tokens."""
    rows: dict[str, str] = {}
    for y, text in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>([^<]*)</text>', picture):
        rows[y] = rows.get(y, "") + unescape(text).replace("\xa0", " ")
    return [re.sub(r"[\d,]+ tokens.*", "tokens", row).strip() for row in rows.values()]


@pytest.mark.deep
def test_the_picture_shows_what_the_terminal_shows(demo_cloud: LocalCloud, tmp_path: Path) -> None:
    """`make screenshots` takes it again."""
    (tmp_path / "work").mkdir()
    environment = {**os.environ, "CODELAB_URL": demo_cloud.http, "CODELAB_TOKEN": ""}
    environment |= {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    shown = texts(svg(played(environment, tmp_path / "work")))
    assert "Run run_command?  y yes  n no  e edit" in shown
    assert texts(PICTURE.read_text("utf-8")) == shown
