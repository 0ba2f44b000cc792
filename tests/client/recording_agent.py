"""`codelab acp` between two recorders: `python recording_agent.py LOG [OPTIONS…]` writes every line to LOG as JSON."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any


def _copy(source: IO[bytes], target: IO[bytes], who: str, log: Path) -> None:
    while line := source.readline():
        with log.open("a") as file:
            file.write(json.dumps({"from": who, "line": line.decode()}) + "\n")
        target.write(line)
        target.flush()
    target.close()


def main() -> int:
    log = Path(sys.argv[1])
    command = [sys.executable, "-m", "codelab_client.command_line", "acp", *sys.argv[2:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        ways: list[tuple[Any, ...]] = [
            (sys.stdin.buffer, agent.stdin, "editor", log),
            (agent.stdout, sys.stdout.buffer, "agent", log),
        ]
        threads = [threading.Thread(target=_copy, args=way, daemon=True) for way in ways]
        for thread in threads:
            thread.start()
        code = agent.wait()
        threads[1].join()
    return code


if __name__ == "__main__":
    sys.exit(main())
