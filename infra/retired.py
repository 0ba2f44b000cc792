"""Refuses identifiers that were renamed: `python -m infra.retired`. They are listed in infra/retired_names.txt.

Strings and comments may contain them: some are attributes of stored items, and may not change.
"""

import subprocess
import sys
import tokenize
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def retired_names() -> dict[str, str]:
    """The retired identifiers, and what to use instead."""
    lines = (_ROOT / "infra" / "retired_names.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def uses(path: Path, retired: dict[str, str]) -> list[str]:
    """A line for each use of a retired identifier in the file."""
    with path.open("rb") as file:
        names = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME]
    found = [(token.start[0], token.string) for token in names if token.string in retired]
    return [f"{path}:{line}: {name} is now called {retired[name]}" for line, name in found]


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=_ROOT, capture_output=True, text=True, check=True)
    retired = retired_names()
    paths = [_ROOT / name for name in listed.stdout.splitlines()]
    found = [use for path in paths if path.is_file() for use in uses(path, retired)]
    sys.stderr.writelines(f"{use}\n" for use in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
