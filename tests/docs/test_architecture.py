"""`docs/architecture.md` leads through the code by file names: they are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers/codelab/codelab"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py|functions/\w+|protocol/\w+)`", PAGE))
    assert len(named) > 30
    assert [name for name in sorted(named) if not any((at / name).exists() for at in (ROOT, LIBRARY))] == []
