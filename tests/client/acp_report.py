"""What all tests of editors said, judged and counted: `python -m tests.client.acp_report [--write] [--newest]`.

It runs the tests, also the deep ones. --write: ticks in docs/editors.md what each client used. --newest: says what the
newest npm package of ACP would say of the same messages, and what it has besides.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.client.acp_schema import InvalidMessage, Schema, Witness

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "editors.md"
_TESTS = ("test_acp.py", "test_acp_tokens.py", "test_acp_messages.py", "test_acp_clients.py")
_HEADER = re.compile(r"^\| ACP \| `codelab acp` \| (.+) \|$", re.MULTILINE)


def rows(page: str) -> list[tuple[list[str], list[str]]]:
    """The rows of the table: the names of the first cell, and all cells."""
    table = page[page.index("| ACP | `codelab acp` |") :].split("\n\n", 1)[0].splitlines()[2:]
    return [(re.findall("`([^`]+)`", line.split(" | ")[0]), line.strip("| ").split(" | ")) for line in table]


def ticked(page: str, used: dict[str, set[str]]) -> str:
    """The page, with a tick for what each client used: `(✓)` for a part of a row's names."""
    header = _HEADER.search(page)
    assert header is not None
    clients = header[1].split(" | ")
    for names, _ in rows(page):
        start = page.index("| " + ", ".join(f"`{name}`" for name in names) + " |")
        end = page.index("\n", start)
        first, text = page[start:end].strip("| ").split(" | ")[:2]
        cells = [first, text, *(_tick(names, used.get(client, set())) for client in clients)]
        page = page[:start] + "|" + "".join(f" {cell} |" if cell else " |" for cell in cells) + page[end:]
    return page


def _tick(names: list[str], used: set[str]) -> str:
    return "✓" if used.issuperset(names) else "(✓)" if used.intersection(names) else ""


def _heard(logs: Iterable[Path], schema: Schema) -> tuple[dict[str, set[str]], Counter[str], list[str]]:
    """What each client used, how many messages of the agent it got, and what the schema says against them."""
    used: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    complaints: list[str] = []
    for log in logs:
        client = log.name.rsplit(".", 2)[0]
        witness = Witness(schema, client)
        for line in log.read_text().splitlines():
            entry: dict[str, Any] = json.loads(line)
            counts[client] += entry["from"] == "agent"
            try:
                witness.hear(entry["from"], entry["message"])
            except InvalidMessage as error:
                complaints.append(str(error).splitlines()[0])
        used.setdefault(client, set()).update(witness.used)
    return used, counts, complaints


def _newest(folder: Path) -> tuple[str, Path]:
    """The version of the newest package, and its folder."""
    command = ["npm", "pack", "--silent", "@agentclientprotocol/sdk@latest"]
    packed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["tar", "-xzf", packed], cwd=folder, check=True)
    return json.loads((folder / "package" / "package.json").read_text())["version"], folder / "package"


def _compare(logs: list[Path], pinned: Schema) -> None:
    with tempfile.TemporaryDirectory() as name:
        version, package = _newest(Path(name))
        for protocol in ("v1", "v2"):
            schema = Schema.of(package, protocol)
            _, counts, complaints = _heard(logs, schema)
            sys.stdout.write(f"{version}, {protocol}: {len(complaints)} of {counts.total()} messages invalid\n")
            for complaint, number in Counter(re.sub(r"\d+", "…", one)[:160] for one in complaints).most_common(12):
                sys.stdout.write(f"  {number} × {complaint}\n")
            for kind, newer, older in (
                ("method", schema.methods, pinned.methods),
                ("update", schema.updates, pinned.updates),
            ):
                for one in sorted(newer.keys() | older.keys()):
                    states = [
                        "no" if one not in side else "stable" if side[one] else "unstable" for side in (older, newer)
                    ]
                    if states[0] != states[1]:
                        sys.stdout.write(f"  {kind} {one}: {states[0]} → {states[1]}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--newest", action="store_true")
    parser.add_argument(
        "--log", type=Path, help="a folder with what an earlier run has kept; it is filled if it is new"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.log or Path(name)
        if not folder.is_dir() or not any(folder.iterdir()):
            folder.mkdir(parents=True, exist_ok=True)
            files = [str(Path(__file__).with_name(test)) for test in _TESTS]
            command = [sys.executable, "-m", "pytest", "-q", "-m", "deep or not deep", *files]
            if subprocess.run(command, cwd=ROOT, env={**os.environ, "ACP_LOG": str(folder)}, check=False).returncode:
                return 1
        logs = sorted(folder.glob("*.jsonl"))
        pinned = Schema.pinned()
        used, counts, complaints = _heard(logs, pinned)
        for client, number in sorted(counts.items()):
            sys.stdout.write(f"{client}: {number} messages of the agent, {len(used[client])} methods and updates\n")
        sys.stdout.write(f"{counts.total()} messages, {len(complaints)} invalid\n")
        sys.stdout.writelines(f"{complaint}\n" for complaint in complaints)
        if options.newest:
            _compare(logs, pinned)
        if options.write:
            PAGE.write_text(ticked(PAGE.read_text(), used))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
