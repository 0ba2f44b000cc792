"""`python -m infra.cost` writes the tables of docs/cost.md; `--check` only says whether they are stale."""

import sys
from collections.abc import Sequence

from infra.cost.page import PAGE, page, read


def main(arguments: Sequence[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    written = page(text, read())
    if written == text:
        return 0
    if "--check" in arguments:
        sys.stderr.write("docs/cost.md: stale; run 'make cost'\n")
        return 1
    PAGE.write_text(written, encoding="utf-8")
    sys.stdout.write("cost: docs/cost.md\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
