"""Completes slash commands, and files of the workspace after an @."""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from codelab_client.safe_text import safe_line

_MOST_FILES = 20_000
_MOST_SHOWN = 50
#: Seconds for which the list of files is kept.
_KEPT_S = 5.0
_SKIPPED = {".git", ".hg", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", "target", "build"}
_MENTION = re.compile(r"(?:^|\s)@([^\s@]*)$")


class Suggestions(Completer):
    """What may be meant. commands: the names of the slash commands, each with what it does."""

    def __init__(self, workspace: Path, commands: Callable[[], Mapping[str, str]]) -> None:
        self._workspace, self._commands = workspace, commands
        self._files: list[str] = []
        self._read_at = -_KEPT_S

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See Completer."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for name, description in self._commands().items():
                if name.startswith(text[1:]):
                    yield Completion(f"/{name}", start_position=-len(text), display_meta=description)
        elif mention := _MENTION.search(text):
            for path in self._found(mention[1]):
                yield Completion(path, start_position=-len(mention[1]), display=safe_line(path, 100))

    def _found(self, part: str) -> list[str]:
        """Files with `part` in their path, those whose name begins with it first."""
        if time.monotonic() - self._read_at > _KEPT_S:
            self._files, self._read_at = self._listed(), time.monotonic()
        needle = part.lower()
        matching = [path for path in self._files if needle in path.lower()]
        matching.sort(key=lambda path: (not path.lower().rpartition("/")[2].startswith(needle), len(path), path))
        return matching[:_MOST_SHOWN]

    def _listed(self) -> list[str]:
        paths: list[str] = []
        for folder, folders, files in os.walk(self._workspace):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            prefix = Path(folder).relative_to(self._workspace)
            paths += [str(prefix / name) for name in files if safe_line(name) == name]
            if len(paths) > _MOST_FILES:
                break
        return paths
