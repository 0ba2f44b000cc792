"""Grades by a script of assertions, `tests.py`: it runs behind the text of one file of the workspace.

It is solved if the end is reached, where a word is printed that the file before does not know.
"""

import json
import secrets
import subprocess
import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_TIMEOUT_S = 50
sys.path.insert(0, str(_TESTS))

from grade import end_what_it_started, reap_orphans, write_reward  # noqa: E402


def main() -> None:
    path, word = json.loads((_TESTS / "settings.json").read_text("utf-8"))["main"], secrets.token_hex(16)
    parts = [Path(path).read_text("utf-8", errors="replace"), (_TESTS / "tests.py").read_text("utf-8")]
    program = "\n\n".join([*parts, f"print({word!r})\n"])
    reap_orphans()
    try:
        process = subprocess.run(
            [sys.executable, "-"],
            input=program,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        output = process.stdout
        solved = process.returncode == 0 and word in output.splitlines()
    except subprocess.TimeoutExpired:
        output, solved = f"not done after {_TIMEOUT_S} s", False
    end_what_it_started()
    sys.stdout.write("solved\n" if solved else output.replace(word, ""))
    write_reward(solved=solved)


if __name__ == "__main__":
    main()
