"""A release: its version is the same everywhere, and cuts the changelog."""

import shutil
from datetime import date
from pathlib import Path

import pytest

from infra import release

TODAY = date(2026, 11, 27)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what has the version."""
    for name in {name for name, _ in release._PLACES} | {"CHANGELOG.md"}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(release.ROOT / name, tmp_path / name)
    return tmp_path


def test_this_checkout_agrees() -> None:
    assert release.disagreements() == []


def test_a_new_version_is_written_everywhere(checkout: Path) -> None:
    before = release.version(checkout)
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n- New.\n\n## [0.1.0] - 2025-01-01\n")
    release.set_version("91.2.3", TODAY, checkout)
    assert release.disagreements(checkout) == []
    assert release.version(checkout) == "91.2.3"
    for name in {name for name, _ in release._PLACES}:
        old = (release.ROOT / name).read_text("utf-8").splitlines()
        new = (checkout / name).read_text("utf-8").splitlines()
        changed = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
        assert changed, name
        assert all(one.replace(before, "91.2.3", 1) == other for one, other in changed), name
    assert (checkout / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n## [Unreleased]\n\n## [91.2.3] - 2026-11-27\n\n- New.\n\n## [0.1.0] - 2025-01-01\n"
    )


@pytest.mark.parametrize(
    ("wanted", "why"), [("next", "is no version"), ("1.2", "is no version"), ("0.2.0", "has a section")]
)
def test_a_version_that_cannot_be(wanted: str, why: str, checkout: Path) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    with pytest.raises(release.ReleaseError, match=why):
        release.set_version(wanted, TODAY, checkout)
    assert {path: path.read_bytes() for path in before} == before


def test_what_does_not_agree_is_named(checkout: Path) -> None:
    path = checkout / "clients/typescript/package.json"
    path.write_text(path.read_text("utf-8").replace(release.version(), "0.0.9"), "utf-8")
    (checkout / "CHANGELOG.md").write_text("# Changelog\n")
    assert release.disagreements(checkout) == [
        f"clients/typescript/package.json has 0.0.9, and pyproject.toml has {release.version()}",
        f"CHANGELOG.md has no section [{release.version()}] with a date",
    ]


@pytest.mark.deep
def test_what_is_released_can_be_installed(capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    try:
        release.try_out()
    except release.ReleaseError as error:
        if any(word in str(error) for word in ("ENOTFOUND", "Failed to fetch", "dns error")):
            pytest.skip("no registry can be reached")
        raise
    names = [line.split(release.version())[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["codelab_client-", "codelab_local-", "codelab-client-"]
