"""Searches with ripgrep, in the sandbox: it opens files by their paths, so links that are swapped could mislead it."""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools import limits
from codelab_client.tools.paths import joined
from codelab_client.tools.processes import Process
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import Match

_OUTPUT = 4_000_000
_OPTIONS = (
    *("--no-config", "--json", "--fixed-strings", "--hidden", "--glob=!.git", "--no-messages", "--sort=path"),
    *("--max-filesize=2M", "--max-columns=0"),
)


class Ripgrep:
    """ripgrep for one workspace. program: its path."""

    def __init__(self, root: Path, program: str, path: str, sandbox: Sandbox) -> None:
        self._root, self._path, self._sandbox = root, path, sandbox
        self._program = str(Path(program).resolve())  # It may be in the home directory, which the sandbox hides.

    async def search(self, names: Names, query: str, *, case_sensitive: bool, most: int) -> list[Match] | None:
        """At most so many lines with the text below a directory; None if ripgrep fails. Raises OSError."""
        case = "--case-sensitive" if case_sensitive else "--ignore-case"
        argv = (self._program, *_OPTIONS, case, "-e", query, "--", f"./{joined(names)}")
        access = Access(readable=(self._root, Path(self._program)))
        process = await Process.start(
            self._sandbox.launch(argv, access, self._root), {"PATH": self._path, "LC_ALL": "C.UTF-8"}, most=_OUTPUT
        )
        ended = await process.wait()
        if ended.exit_code not in (0, 1):  # 1: nothing was found
            return None
        return list(_matches(process.stdout.text()))[:most]


def _matches(output: str) -> Iterator[Match]:
    for line in output.split("\n"):
        try:
            event = json.loads(line)
        except ValueError:  # the last line of a cut output
            continue
        if event.get("type") == "match":
            found = event["data"]
            path, text = found["path"].get("text"), found["lines"].get("text", "").split("\n")[0]
            if path is not None:
                yield Match(str(PurePosixPath(path)), found["line_number"], text.rstrip("\r")[: limits.MATCH_CHARS])
