"""The figures of the Request: a stream, a call, its preparation and, if real schemas are available, the strict codec.

CODELAB_DATA names the folder with `jsb_tools_like.jsonl.gz` and the meta-schema; without it, the codec is not measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    commands = [["benchmarks.llm_stream"], ["benchmarks.llm_transports"], ["benchmarks.llm_preparing"]]
    file = Path(os.environ.get("CODELAB_DATA", "")) / "jsb_tools_like.jsonl.gz"
    if file.exists():
        commands.append(["benchmarks.llm_codec", str(file), "--samples", "1"])
        commands.append(["benchmarks.llm_side_by_side", str(file)])
    else:
        print("CODELAB_DATA does not name the folder with the schemas: the codec is not measured")
    return max(subprocess.run([sys.executable, "-m", *command], check=False).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main())
