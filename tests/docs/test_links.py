"""The files and headings that pages link to exist."""

import re
from pathlib import Path

import pytest

from infra.docs.markdown import anchor

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("local/*/*.md")]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_works(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        path, _, heading = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if heading:
            assert f"#{heading}" in [anchor(found) for found in _HEADING.findall(prose(target))], link
