"""`make docs` generates documents, and `make lint` finds stale ones."""

import shutil
from pathlib import Path

import pytest

from infra.docs import __main__ as generator


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    shutil.copy(generator.ROOT / "template.yaml", tmp_path)  # The source of one of the documents.
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.deep
def test_generated_documents_are_written_only_when_stale(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generator.main([]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"docs: {name}" for name in generator.documents())
    assert generator.main(["--check"]) == 0
    assert generator.main([]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_stale_document_is_reported_with_the_command(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator.main([])
    page = checkout / "docs/frames.md"
    page.write_text(page.read_text(encoding="utf-8") + "by hand\n", encoding="utf-8")
    capsys.readouterr()
    assert generator.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/frames.md: stale; run 'make docs'\n"
    assert page.read_text(encoding="utf-8").endswith("by hand\n")
