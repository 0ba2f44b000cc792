"""Grades by vitest, which stands in /grader: `settings.json` beside this file says what runs.

All tests must pass, and there must be as many as their files have. Those that the files leave out at first (`xtest`,
`xit`) run, too.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_VITEST = "/grader/node/node_modules/vitest/vitest.mjs"
_ONE = re.compile(r"^\s*x?(?:test|it)\(", re.MULTILINE)
sys.path.insert(0, str(_TESTS))

from grade import write_reward  # noqa: E402
from outcomes import outcomes_of  # noqa: E402


def main() -> None:
    paths = json.loads((_TESTS / "settings.json").read_text("utf-8"))["paths"]
    shutil.copytree(_TESTS / "files", Path.cwd(), dirs_exist_ok=True)
    command = ["node", _VITEST, "run", "--root", ".", "--config", str(_TESTS / "vitest.config.mjs")]
    command += ["--configLoader", "native", "--", *paths]  # the others write beside the configuration
    outcomes = outcomes_of(command, {**os.environ, "NO_COLOR": "1"})
    wanted = sum(len(_ONE.findall((_TESTS / "files" / path).read_text("utf-8"))) for path in paths)
    problems = sorted(name for name, outcome in outcomes.items() if outcome not in ("passed", "skipped"))
    if len(outcomes) < wanted:
        problems.append(f"{wanted - len(outcomes)} tests did not run")
    sys.stdout.write("\n".join(problems) + "\n" if problems else f"{len(outcomes)} tests, solved\n")
    write_reward(solved=not problems)


if __name__ == "__main__":
    main()
