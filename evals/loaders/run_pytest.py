"""Grades by pytest: `settings.json` beside this file says what runs and what must pass."""

import ast
import json
import os
import shutil
import sys
from pathlib import Path

_TESTS = Path(__file__).parent
sys.path.insert(0, str(_TESTS))

from grade import write_reward  # noqa: E402
from outcomes import outcomes_of  # noqa: E402


def main() -> None:
    settings = json.loads((_TESTS / "settings.json").read_text("utf-8"))
    shutil.copytree(_TESTS / "files", Path.cwd(), dirs_exist_ok=True)
    search = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "told", "-p", "no:cacheprovider", "--", *settings["paths"]]
    outcomes = outcomes_of(command, os.environ | {"PYTHONPATH": search})
    failed = sorted(name for name, outcome in outcomes.items() if outcome not in ("passed", "skipped"))
    if settings["wanted"] is None:
        missing = _tests_in(settings["paths"]) - len(outcomes)
        problems = failed + ([f"{missing} tests did not run"] if missing > 0 else [])
    else:
        problems = [
            f"{name}: {outcomes.get(name, 'not run')}" for name in settings["wanted"] if outcomes.get(name) != "passed"
        ]
    sys.stdout.write("\n".join(problems) + "\n" if problems else f"{len(outcomes)} tests, solved\n")
    write_reward(solved=not problems)


def _tests_in(paths: list[str]) -> int:
    """How many functions with a test's name the files have."""
    trees = [ast.parse((_TESTS / "files" / path).read_bytes()) for path in paths]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sum(node.name.startswith("test") for node in functions)


if __name__ == "__main__":
    main()
