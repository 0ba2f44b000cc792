"""Grades by pytest: `settings.json` beside this file says what runs and what must pass.

The code under test runs in another process, which tells of each test over a pipe, behind a word that it would
have to look for: that it ends with 0, or prints that all is well, says nothing.
"""

import ast
import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
from pathlib import Path

_TESTS = Path(__file__).parent
sys.path.insert(0, str(_TESTS))

from grade import end_what_it_started, reap_orphans, write_reward  # noqa: E402


def main() -> None:
    settings = json.loads((_TESTS / "settings.json").read_text("utf-8"))
    shutil.copytree(_TESTS / "files", Path.cwd(), dirs_exist_ok=True)
    outcomes = _outcomes(settings["paths"])
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


def _outcomes(paths: list[str]) -> dict[str, str]:
    """By the name of each test that ran, its outcome."""
    word = secrets.token_hex(16)
    reader, writer = os.pipe()
    search = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    line = [sys.executable, "-m", "pytest", "-q", "-p", "told", "-p", "no:cacheprovider", "--", *paths]
    environment = os.environ | {"PYTHONPATH": search, "TOLD_TO": str(writer), "TOLD_WORD": word}
    reap_orphans()
    rows: list[str] = []
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        reading = threading.Thread(target=lambda: rows.extend(pipe), daemon=True)
        reading.start()
        subprocess.run(line, env=environment, pass_fds=[writer], stdin=subprocess.DEVNULL, check=False)
        os.close(writer)
        end_what_it_started()  # and nothing holds the pipe any more
        reading.join()
    outcomes: dict[str, str] = {}
    for prefix, outcome, name in (row.rstrip("\n").split(" ", 2) for row in rows if row.count(" ") > 1):
        if prefix == word and outcomes.get(name, "passed") == "passed":  # of setup, call and teardown, the worst
            outcomes[name] = outcome
    return outcomes


def _tests_in(paths: list[str]) -> int:
    """How many functions with a test's name the files have."""
    trees = [ast.parse((_TESTS / "files" / path).read_bytes()) for path in paths]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sum(node.name.startswith("test") for node in functions)


if __name__ == "__main__":
    main()
