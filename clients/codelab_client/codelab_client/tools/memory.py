"""A workspace that only exists in memory, without links, commands or git: for tests and for editors' drafts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from codelab_client.tools import fingerprints
from codelab_client.tools.failure import Changed, ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.tree import ANY, Change, Content, Names, Node
from codelab_client.tools.workspace import Match, Query, matching_lines


@dataclass
class MemoryWorkspace:
    """See Workspace. files: their contents by name. directories: those that are empty or made by a call."""

    files: dict[Names, bytes] = field(default_factory=dict)
    directories: set[Names] = field(default_factory=set)
    root: None = None

    async def read(self, names: Names, limit: int) -> Content:
        """See Workspace."""
        if self._is_directory(names):
            raise ToolFailure("EXECUTION_FAILED", f"{joined(names)} is a directory")
        if names not in self.files:
            raise _missing(names)
        data = self.files[names]
        if len(data) > limit:
            raise ToolFailure("FILE_TOO_LARGE", f"{joined(names)} has {len(data)} bytes; at most {limit} are allowed")
        return Content(data, 0o644, 0.0, (hash(data),))

    async def scan(self, directories: Sequence[Names]) -> list[list[Node]]:
        """See Workspace."""
        if not self._is_directory(directories[0]):
            raise _missing(directories[0])
        return [self._entries(names) for names in directories]

    async def search(self, files: Sequence[Names], query: Query, limit: int) -> list[Match]:
        """See Workspace."""
        matches: list[Match] = []
        for names in files:
            matches += matching_lines(joined(names), self.files[names], query, limit - len(matches))
        return matches

    async def apply(self, changes: Sequence[Change]) -> None:
        """See Workspace."""
        for change in changes:
            if self._is_directory(change.names):
                raise ToolFailure("EXECUTION_FAILED", f"{joined(change.names)} is a directory")
            if any(change.names[:length] in self.files for length in range(1, len(change.names))):
                raise _missing(change.names)
            data = self.files.get(change.names)
            if change.expected != ANY and change.expected != (None if data is None else (hash(data),)):
                raise Changed(f"{joined(change.names)} was changed meanwhile")
            if data is None and change.data is None:
                raise _missing(change.names)
        for change in changes:
            if change.data is None:
                del self.files[change.names]
            else:
                self.files[change.names] = change.data

    async def make_directory(self, names: Names) -> None:
        """See Workspace."""
        if any(names[:length] in self.files for length in range(1, len(names) + 1)):
            raise _missing(names)
        self.directories.add(names)

    async def fingerprint(self, names: Names) -> str | None:
        """See Workspace."""
        if names in self.files:
            return fingerprints.of_data(self.files[names])
        if not self._is_directory(names):
            return None
        below = sorted(name[len(names) :] for name in self.files if name[: len(names)] == names)
        return fingerprints.of_files((name, self.files[(*names, *name)]) for name in below)

    async def delete(self, names: Names, expected: str | None = None) -> None:
        """See Workspace."""
        if expected is not None and expected != await self.fingerprint(names):
            raise Changed(f"{joined(names)} was changed meanwhile")
        if names not in self.files and not (names and self._is_directory(names)):
            raise _missing(names)
        self.files = {name: data for name, data in self.files.items() if name[: len(names)] != names}
        self.directories = {name for name in self.directories if name[: len(names)] != names}

    async def move(self, source: Names, target: Names) -> None:
        """See Workspace."""
        if source not in self.files and not (source and self._is_directory(source)):
            raise _missing(source)
        if target[: len(source)] == source or target in self.files or self._is_directory(target):
            raise ToolFailure("EXECUTION_FAILED", f"{joined(target)} exists already")

        def moved(name: Names) -> Names:
            return (*target, *name[len(source) :]) if name[: len(source)] == source else name

        self.files = {moved(name): data for name, data in self.files.items()}
        self.directories = {moved(name) for name in self.directories}

    def _is_directory(self, names: Names) -> bool:
        below = (name for table in (self.files, self.directories) for name in table)
        return (
            not names
            or names in self.directories
            or any(len(name) > len(names) and name[: len(names)] == names for name in below)
        )

    def _entries(self, names: Names) -> list[Node]:
        depth = len(names)
        children = {name[: depth + 1] for name in (*self.files, *self.directories) if name[:depth] == names}
        return [
            Node(name[-1], "file" if name in self.files else "directory", len(self.files.get(name, b"")))
            for name in sorted(children)
            if len(name) == depth + 1
        ]


def _missing(names: Names) -> ToolFailure:
    return ToolFailure("FILE_NOT_FOUND", f"{joined(names)}: No such file or directory")
