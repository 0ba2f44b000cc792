"""What a program of tests tells over a pipe, for the graders beside which this file stands.

The code under test runs in another process than its grader, which is told of each test behind a word that the code
would have to look for: that it ends with 0, or prints that all is well, says nothing.
"""

import os
import secrets
import subprocess
import threading
from collections.abc import Mapping, Sequence

from grade import end_what_it_started, reap_orphans


def outcomes_of(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Run the tests. Returns the outcome by the name of each test that ran: the worst, if it is told of several times.

    The program writes a line with `TOLD_WORD`, the outcome and the name to the descriptor `TOLD_TO`.
    """
    word = secrets.token_hex(16)
    reader, writer = os.pipe()
    reap_orphans()
    rows: list[str] = []
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        reading = threading.Thread(target=lambda: rows.extend(pipe), daemon=True)
        reading.start()
        told = {**environment, "TOLD_TO": str(writer), "TOLD_WORD": word}
        subprocess.run(command, env=told, pass_fds=[writer], stdin=subprocess.DEVNULL, check=False)
        os.close(writer)
        end_what_it_started()  # and nothing holds the pipe any more
        reading.join()
    outcomes: dict[str, str] = {}
    for prefix, outcome, name in (row.rstrip("\n").split(" ", 2) for row in rows if row.count(" ") > 1):
        if prefix == word and outcomes.get(name, "passed") == "passed":
            outcomes[name] = outcome
    return outcomes
