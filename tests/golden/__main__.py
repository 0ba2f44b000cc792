"""`python -m tests.golden` tells which names have changed; with `--write` it makes the new ones the expected ones."""

import sys

from tests.golden import GOLDEN, difference

for golden in GOLDEN:
    current = golden.names()
    sys.stdout.write(difference(golden.path, current))
    if "--write" in sys.argv[1:]:
        golden.path.write_text(current, encoding="utf-8")
