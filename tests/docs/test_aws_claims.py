"""Every limit and price of AWS that a page states has a row with its source, or a way to verify it."""

from pathlib import Path

import pytest

from infra.docs import aws_claims

_HEAD = "| service | stated as | what | source | checked |\n|---|---|---|---|---|\n"
_LINK = "https://docs.aws.amazon.com/lambda/latest/dg/limits.html"
_GOOD = f"| Lambda | `6 MB` | an event | {_LINK} | 2026-11-27 |\n"


def problems(tmp_path: Path, text: str, rows: str = "") -> list[str]:
    folder = tmp_path / "docs"
    folder.mkdir(exist_ok=True)
    (folder / "page.md").write_text(text)
    page = folder / "aws-claims.md"
    page.write_text(_HEAD + rows)
    return list(aws_claims.problems(folder, page))


def test_the_pages_of_this_project_have_all_their_rows() -> None:
    assert list(aws_claims.problems()) == []
    assert len(aws_claims.rows()) > 30


@pytest.mark.parametrize(
    "text",
    [
        "An event of Lambda has at most 6 MB.",
        "A line\n\nAn event of Lambda has\nat most 6 MB in a\nparagraph.",
        "| Lambda, an event | 6 MB |",
        "- **Lambda** takes 6 MB",
    ],
)
def test_a_limit_of_a_service_needs_a_row(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert "page.md:" in problem
    assert "6 MB (Lambda) has no row" in problem
    assert problems(tmp_path, text, _GOOD) == []


def test_a_price_needs_a_row_whatever_its_sentence_names(tmp_path: Path) -> None:
    assert "$0.40" in problems(tmp_path, "A secret costs $0.40 a month.")[0]
    row = "| AWS | `$0.40` | a secret | https://aws.amazon.com/secrets-manager/pricing/ | 2026-11-27 |\n"
    assert problems(tmp_path, "A secret costs $0.40 a month.", row) == []


@pytest.mark.parametrize(
    "text",
    [
        "A tool has 120 s.",
        "Lambda has `6 MB` of code.",
        "```\nLambda 6 MB\n```",
        "<!-- counts -->\nLambda 6 MB\n<!-- /counts -->\n",
        "Lambda stops it. A tool has 120 s.",
        "[Lambda](https://example.com/6 MB)",
    ],
)
def test_what_is_not_stated_of_aws_needs_none(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == []


def test_a_row_of_another_service_does_not_do(tmp_path: Path) -> None:
    (missing, unused) = problems(tmp_path, "DynamoDB takes 6 MB.", _GOOD)
    assert "6 MB (DynamoDB) has no row" in missing
    assert "no page states 6 MB of Lambda" in unused


@pytest.mark.parametrize(
    ("source", "checked", "is_right"),
    [
        (_LINK, "2026-11-27", True),
        (_LINK, "long ago", False),
        ("a book", "2026-11-27", False),
        ("a book", "unverified: count them", True),
        ("our own", "ours: a test", True),
        ("a book", "unverified", False),
    ],
)
def test_a_row_has_a_source_and_a_date_or_a_way_to_verify_it(
    tmp_path: Path, source: str, checked: str, is_right: bool
) -> None:
    row = f"| Lambda | `6 MB` | an event | {source} | {checked} |\n"
    assert (problems(tmp_path, "Lambda takes 6 MB.", row) == []) == is_right
