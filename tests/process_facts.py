"""Writes as JSON what a process has got from the one that started it: `python -m tests.process_facts`."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    facts = {
        "arguments": sys.argv[1:],
        "command line": [word for word in Path("/proc/self/cmdline").read_text().split("\0") if word],
        "descriptors": [path.name for path in list(Path("/proc/self/fd").iterdir()) if path.exists()],
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "has own session": os.getsid(0) == os.getpid(),
        "input": sys.stdin.read(),
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "path": sys.path[0],
        # Of the first 31: the next two are the C library's own.
        "signals": {name: int(status[name], 16) & 0x7FFFFFFF for name in ("SigBlk", "SigIgn", "SigCgt")},
        "streams": [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "threads": threading.active_count(),
        "umask": status["Umask"].strip(),
    }
    print(json.dumps(facts))  # noqa: T201
    sys.exit(3)
