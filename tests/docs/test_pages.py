"""What the pages name exists: files and headings that they link to, files, settings and tests."""

import re
from pathlib import Path

from codelab.config import variables

from infra.docs.markdown import anchor
from tests.cases import cases

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("local/*/*.md"), ROOT / "tests/README.md"]
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs/security.md").read_text(encoding="utf-8")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| .+ \|$", re.MULTILINE)
#: Settings that only the local cloud has.
_LOCAL = {"HOST", "ALLOWED_HOSTS", "ALLOWED_ORIGINS"}


def prose(path: Path) -> str:
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


@cases("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_works(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        path, _, heading = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if heading:
            assert f"#{heading}" in [anchor(found) for found in _HEADING.findall(prose(target))], link


@cases("page", [page for page in ROOT.glob("docs/*.md") if page.name != "README.md"], ids=lambda page: page.name)
def test_a_page_says_first_what_it_is(page: Path) -> None:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line and not line.startswith("<!--")]
    assert lines[0].startswith("# ")
    assert lines[1] in {"*Tutorial*", "*How-to*", "*Reference*", "*Explanation*"}


def test_pictures_are_shown_and_small() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in _LINK.findall(prose(page))}
    for picture in (ROOT / "docs/images").iterdir():
        assert picture in shown, f"no page shows {picture.name}"
        assert picture.stat().st_size <= 150_000, picture.name


def test_the_first_ten_minutes_name_what_the_page_says() -> None:
    texts = set(
        re.findall(r"^  '[\w.]+': '(.+)',$", (ROOT / "clients/web/src/i18n/en.ts").read_text("utf-8"), re.MULTILINE)
    )
    named = re.findall(r"\*\*(.+?)\*\*", (ROOT / "docs/first-ten-minutes.md").read_text("utf-8"))
    assert len(named) > 5
    assert set(named) <= texts, set(named) - texts


def missing(names: set[str], folder: str) -> list[str]:
    """The files that exist neither in the repository's root nor in `folder`."""
    return [name for name in sorted(names) if not any((place / name).exists() for place in (ROOT, ROOT / folder))]


def test_every_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py|functions/\w+|protocol/\w+)`", ARCHITECTURE))
    assert len(named) > 30
    assert missing(named, "layers/codelab/codelab") == []


def absent_names(cell: str) -> list[str]:
    """The files of a table's cell that do not exist, and the names in it that none of its files has."""
    words = re.findall(r"`([^`]+)`", cell)
    bases = (ROOT, ROOT / "layers/codelab/codelab", ROOT / "clients/codelab_client/codelab_client")
    paths = [word for word in words if re.fullmatch(r"[\w/.-]+/[\w.-]+|template\.yaml|observability\.py", word)]
    places = {path: next((base / path for base in bases if (base / path).exists()), None) for path in paths}
    files = [
        file for place in places.values() if place for file in (place.rglob("*.py") if place.is_dir() else [place])
    ]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    names = [word for word in words if re.fullmatch(r"_\w+|[A-Z]\w+", word)]
    return [
        *(path for path, place in places.items() if place is None),
        *(name for name in names if not re.search(rf"\b{name}\b", text)),
    ]


def test_what_contributing_names_where_something_is_added_exists() -> None:
    section = CONTRIBUTING.partition("## Adding something")[2].partition("\n## ")[0]
    cells = [row.strip("| ").split(" | ")[1] for row in _ROW.findall(section)]
    assert len(cells) > 5
    assert [name for cell in cells for name in absent_names(cell)] == []


def test_the_architecture_names_the_right_place_of_every_reason_not_to_post() -> None:
    section = ARCHITECTURE.partition("## Why a frame was not posted")[2].partition("\n## ")[0]
    cells = [row.strip("| ").split(" | ")[1] for row in _ROW.findall(section)]
    assert len(cells) > 10
    assert [name for cell in cells for name in absent_names(cell)] == []
    assert absent_names("`Delivery` of `delivery/post.py`, `delivery/gone.py`") == ["delivery/gone.py", "Delivery"]


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
