"""docs/aws-claims.md: what the documents state of AWS, each with its source and date.

`python -m infra.docs.aws_claims` prints what the documents state of AWS without a row, and rows that state what no
document does. A statement is a quantity (a limit, a price, a time) in a sentence that names a service of AWS.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
PAGE = _ROOT / "docs/aws-claims.md"
#: Names of AWS's services, as the documents spell them.
_SERVICES = (
    *("API Gateway", "Lambda", "DynamoDB", "S3", "CloudWatch", "Secrets Manager", "Bedrock", "CloudFormation"),
    *("SNS", "SQS", "EventBridge", "X-Ray", "CloudFront", "Service Quotas", "AWS"),
)
_SERVICE = re.compile(r"(?<![\w/.-])(" + "|".join(map(re.escape, _SERVICES)) + r")(?![\w/-])")
_UNIT = (
    r"(?:units a second|a second|at once|more in 10 s|KB|MB|GB|ms|s|seconds?|minutes?|hours?|days?|months?|units|"
    r"characters|concurrent executions|functions at once)"
)
#: `$0.40`, `29 s`, `10,000 a second`, `35 days`, `128 KB`.
_QUANTITY = re.compile(rf"\$\d[\d,.]*\d|\$\d|(?<![\w.$#-])\d[\d,.]*(?:\s{_UNIT})(?![\w-])")
#: Pages of the documents' own figures, and generated ones, whose source has its own check.
_LEFT_OUT = frozenset(
    {
        "aws-claims.md",
        "local-cloud.md",
        "evaluation.md",
        "parameters.md",
        "settings.md",
        "frames.md",
        "tools.md",
        "performance.md",
    }
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A quantity, the services that its sentence names, and where it is."""

    page: str
    line: int
    services: frozenset[str]
    quantity: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: the service, the quantities as documents write them, and what backs it."""

    service: str
    quantities: tuple[str, ...]
    claim: str
    source: str
    checked: str


def statements(folder: Path = _ROOT / "docs") -> Iterator[Statement]:
    """What the pages in `folder` state of AWS, without decisions, which are of their date."""
    for path in sorted(folder.glob("*.md")):
        if path.name not in _LEFT_OUT:
            for line, sentence in _sentences(path.read_text(encoding="utf-8")):
                services = frozenset(_SERVICE.findall(sentence))
                for quantity in _QUANTITY.findall(sentence):
                    if services or quantity.startswith("$"):
                        yield Statement(path.name, line, services or frozenset({"AWS"}), quantity, sentence)


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Sentences and rows of tables with the numbers of their lines, without code and what is generated."""
    text = re.sub(r"<!-- (?!scale)(\S+) -->\n.*?<!-- /\1 -->", _blank, text, flags=re.S)
    text = re.sub(r"^```.*?^```", _blank, text, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`|\]\([^)\n]*\)|\*\*", lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in re.finditer(r"(?:^\|.*$)|(?:[^\n|][^\n]*(?:\n(?![\n|#-]|\d\. )[^\n]+)*)", text, flags=re.M):
        start = found.start()
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z*(\[])", found[0]):
            yield text.count("\n", 0, start) + 1, " ".join(sentence.split())
            start += len(sentence) + 1


def _blank(found: "re.Match[str]") -> str:
    return "\n" * found[0].count("\n")


def rows(page: Path = PAGE) -> list[Row]:
    """The rows of the page's tables."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if len(cells) == 5 and cells[0] in _SERVICES:
            found.append(Row(cells[0], tuple(re.findall(r"`([^`]+)`", cells[1])), *cells[2:]))
    return found


def problems(folder: Path = _ROOT / "docs", page: Path = PAGE) -> Iterator[str]:
    """Statements without a row, rows without a statement, and rows with neither a source nor a way to verify them."""
    known = rows(page)
    used: set[tuple[str, str]] = set()
    for stated in statements(folder):
        backing = {(row.service, stated.quantity) for row in known if stated.quantity in row.quantities}
        backing = {(service, quantity) for service, quantity in backing if service in stated.services | {"AWS"}}
        used |= backing
        if not backing:
            named = ", ".join(sorted(stated.services))
            yield f"docs/{stated.page}:{stated.line}: {stated.quantity} ({named}) has no row in {page.name}"
    for row in known:
        for quantity in row.quantities:
            if (row.service, quantity) not in used:
                yield f"{page.name}: no page states {quantity} of {row.service}: {row.claim}"
        is_dated = re.search(r"\b20\d\d-\d\d-\d\d\b", row.checked) and "https://" in row.source
        if not is_dated and not row.checked.startswith(("unverified: ", "ours: ")):
            yield f"{page.name}: {row.claim}: give a source and the date, or 'unverified: ' and how to verify it"


def main() -> int:
    """Print the problems. The exit status is 1 if there are any."""
    found = list(problems())
    sys.stderr.writelines(f"{problem}\n" for problem in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
