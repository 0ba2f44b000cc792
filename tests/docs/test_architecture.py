"""The files that `docs/architecture.md` names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers/codelab/codelab"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py|functions/\w+|protocol/\w+)`", PAGE))
    assert len(named) > 30
    assert [name for name in sorted(named) if not any((at / name).exists() for at in (ROOT, LIBRARY))] == []
