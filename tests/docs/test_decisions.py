"""The records of decisions have one form, and the index says what they say."""

import re
from pathlib import Path

from tests.cases import cases

DECISIONS = Path(__file__).parents[2] / "docs/decisions"
RECORDS = sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")
#: In this order; the alternatives may be unknown.
HEADINGS = ["Context", "Decision", "Alternatives", "Consequences"]
_NAME = re.compile(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
_DAY = r"\d{4}-\d\d-\d\d"
_REFERENCE = r"\[(?P<by>\d{4})\]\((?P=by)-[a-z0-9-]+\.md\)"
_HEAD = re.compile(
    rf"# (?P<number>\d{{4}})\. (?P<title>.+)\n\n- Date: (?P<date>{_DAY})(?: \(extended {_DAY}(?:, {_DAY})*\))?\n"
    rf"- Status: (?P<status>Accepted|(?:Accepted, amended|Superseded) by {_REFERENCE})\n\n"
)
_ROW = re.compile(rf"^\| \[(\d{{4}})\]\((\S+)\) \| ({_DAY}) \| (.+) \| (.+) \|$", re.MULTILINE)


def form_error(name: str, text: str) -> str | None:
    """What is wrong with the record in the file `name`."""
    match = _NAME.fullmatch(name)
    head = _HEAD.match(text)
    if match is None:
        return "the name is not NNNN-short-name.md"
    if head is None:
        return "it does not begin with number, title, date and status"
    if head["number"] != match[1]:
        return "the number is not that of the name"
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    if headings not in (HEADINGS, [heading for heading in HEADINGS if heading != "Alternatives"]):
        return f"the headings are {headings}"
    sections = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    return None if all(section.strip() for section in sections) else "a section is empty"


def head_of(record: Path) -> re.Match[str]:
    head = _HEAD.match(record.read_text(encoding="utf-8"))
    assert head is not None, record.name
    return head


@cases("record", RECORDS, ids=lambda record: record.stem)
def test_every_record_has_the_form(record: Path) -> None:
    assert form_error(record.name, record.read_text(encoding="utf-8")) is None


def test_the_records_are_numbered_without_gaps_in_the_order_of_their_dates() -> None:
    heads = [head_of(record) for record in RECORDS]
    assert [head["number"] for head in heads] == [f"{number:04}" for number in range(1, len(RECORDS) + 1)]
    dates = [head["date"] for head in heads]
    assert dates == sorted(dates)


def test_the_index_has_one_line_for_every_record_that_says_what_the_record_says() -> None:
    rows = _ROW.findall((DECISIONS / "README.md").read_text(encoding="utf-8"))
    heads = {record.name: head_of(record) for record in RECORDS}
    records = [(head["number"], name, head["date"], head["title"], head["status"]) for name, head in heads.items()]
    assert sorted(rows) == records


_SECTIONS = "## Context\n\na\n\n## Decision\n\nb\n\n## Consequences\n\nc\n"
GOOD = f"# 0007. Title\n\n- Date: 2026-11-21\n- Status: Accepted\n\n{_SECTIONS}"


@cases(
    ("name", "text", "error"),
    [
        ("0007-title.md", GOOD, None),
        ("7-title.md", GOOD, "the name"),
        ("0008-title.md", GOOD, "the number"),
        ("0007-title.md", GOOD.replace("- Date: 2026-11-21\n", ""), "it does not begin"),
        ("0007-title.md", GOOD.replace("Status: Accepted", "Status: Superseded"), "it does not begin"),
        ("0007-title.md", GOOD.replace("## Consequences\n\nc\n", ""), "the headings"),
        ("0007-title.md", GOOD.replace("\nb\n", ""), "a section"),
    ],
)
def test_a_record_without_the_form_is_refused(name: str, text: str, error: str | None) -> None:
    problem = form_error(name, text)
    assert problem == error if error is None else problem is not None and problem.startswith(error)
