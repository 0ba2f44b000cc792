"""What the pages name exists: files and headings that they link to, files, settings and tests."""

import re
from pathlib import Path

import pytest
from codelab.config import variables

from infra.docs.markdown import anchor

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("local/*/*.md"), ROOT / "tests/README.md"]
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs/security.md").read_text(encoding="utf-8")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| .+ \|$", re.MULTILINE)
#: Settings that only the local cloud has.
_LOCAL = {"HOST", "ALLOWED_HOSTS", "ALLOWED_ORIGINS"}


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


def missing(names: set[str], folder: str) -> list[str]:
    """The files that exist neither in the repository's root nor in `folder`."""
    return [name for name in sorted(names) if not any((place / name).exists() for place in (ROOT, ROOT / folder))]


def test_every_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py|functions/\w+|protocol/\w+)`", ARCHITECTURE))
    assert len(named) > 30
    assert missing(named, "layers/codelab/codelab") == []


def test_every_test_that_the_security_page_names_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+|test_\w+\.py)`", SECURITY))
    assert len(named) > 20
    assert missing(named, "tests/security") == []


def test_every_setting_that_the_security_page_names_exists() -> None:
    named = {name for row in _ROW.findall(SECURITY) for name in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", row)}
    known = variables() | _LOCAL | {"RATE_LIMITED"}
    assert len(named) > 15
    assert named <= known, named - known
    parameters = (ROOT / "template.yaml").read_text(encoding="utf-8")
    for parameter in re.findall(r"`((?:Throttle|LlmReserved|StreamReserved|Allowed|LogRetention)\w+)`", SECURITY):
        assert f"\n  {parameter}:\n" in parameters, parameter


def test_the_security_page_names_every_attack_test() -> None:
    for file in (ROOT / "tests/security").glob("test_*.py"):
        assert f"`{file.name}`" in SECURITY, f"{file.name} is not on the page"


def test_the_tests_page_names_every_test_module_once() -> None:
    tests = ROOT / "tests"
    rows = [row for row in _ROW.findall((tests / "README.md").read_text(encoding="utf-8")) if "`" in row]
    named = [name for row in rows for name in re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)*)`", row.split(" | ")[-1])]
    modules = {str(path.relative_to(tests).with_suffix("")).replace("test_", "") for path in tests.rglob("test_*.py")}
    assert sorted(named) == sorted(modules)
