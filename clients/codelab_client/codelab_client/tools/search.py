"""The tools that look through the whole workspace: list_files, find_files and search_in_project.

ripgrep looks at all of it where it is used. Without it, so many entries of the workspace are looked at; a result that
is not of everything says so.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from codelab_client.tools import globs, limits
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.ripgrep import Matches, Ripgrep, SearchCriteria
from codelab_client.tools.tree import Names, Node
from codelab_client.tools.workspace import DiskWorkspace, Ignored, Query, Workspace, walk

_PARTIAL = (
    f"Only the first {limits.ENTRIES:,} entries were looked at, so there may be more: name a folder with `path`, or"
    " another one after it."
)
_FILES_ONLY = f"The folder has more than {limits.ENTRIES:,} entries, so only files are listed, not folders and links."


class Search:
    """Looks through a workspace. ripgrep: None if it is not used. Every method raises ToolFailure."""

    def __init__(self, workspace: Workspace, ripgrep: Ripgrep | None, find_ignored: Ignored) -> None:
        self._workspace, self._ripgrep, self._find_ignored = workspace, ripgrep, find_ignored

    async def list_files(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of list_files."""
        names, pattern = components(arguments["path"]), arguments.get("pattern")
        recursive = arguments.get("recursive", False)
        entries = await walk(self._workspace, names, recursive=recursive, find_ignored=self._find_ignored)
        is_partial = len(entries) > limits.ENTRIES
        if is_partial and recursive and pattern is not None:
            names_found = await self._files(names, pattern)
            if names_found is not None:
                nodes = await asyncio.to_thread(self._nodes, names, names_found[: limits.ENTRIES])
                is_partial = len(names_found) > limits.ENTRIES
                note = f"{_FILES_ONLY} {_PARTIAL}" if is_partial else _FILES_ONLY
                return {"files": _shown(nodes, None), "truncated": is_partial, "note": note}
        truncation = {"truncated": True, "note": _PARTIAL} if is_partial else {}
        return {"files": _shown(entries, pattern)[: limits.ENTRIES], **truncation}

    async def find_files(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of find_files."""
        names, limit = components(arguments.get("path", ".")), arguments.get("max_results", limits.FOUND_FILES)
        names_found, is_partial = await self._files(names, arguments["glob"]), False
        if names_found is None:
            entries = await walk(self._workspace, names, recursive=True, find_ignored=self._find_ignored)
            is_partial = len(entries) > limits.ENTRIES
            names_found = [
                below for below, node in entries if node.kind == "file" and globs.matches(arguments["glob"], below)
            ]
        paths = sorted(joined((*names, *below)) for below in names_found)
        note = {"note": _PARTIAL} if is_partial else {}
        return {"files": paths[:limit], "truncated": len(paths) > limit or is_partial, **note}

    async def search_in_project(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of search_in_project."""
        limit = min(arguments.get("max_results", limits.MATCHES), limits.MATCHES)
        matches = await self._matches(arguments, limit + 1)
        results = [
            {
                "path": match.path,
                "line": match.line,
                "text": match.text,
                **({"before": match.before, "after": match.after} if arguments.get("context") else {}),
            }
            for match in matches.items[:limit]
        ]
        note = {"note": _PARTIAL} if matches.is_partial else {}
        return {"matches": results, "truncated": len(matches.items) > limit or matches.is_partial, **note}

    async def paths_named(self, name: str) -> list[Names]:
        """The files with a name that `walk` has not come to: all that ripgrep finds; none without it."""
        return await self._files((), name) or []

    # -- with ripgrep, or without -------------------------------------------------------------------------------------

    async def _matches(self, arguments: Mapping[str, Any], limit: int) -> Matches:
        names, query = components(arguments.get("path", ".")), query_of(arguments)
        try:
            await self._workspace.scan([names])
        except ToolFailure as failure:
            if not names or failure.code != "FILE_NOT_FOUND":
                raise
            await self._workspace.read(names, limits.SEARCHED_BYTES)
            return Matches(await self._workspace.search([names], query, limit))
        if self._ripgrep is not None:
            criteria = SearchCriteria(
                arguments["query"],
                arguments.get("regex", False),
                arguments.get("case_sensitive", False),
                query.pattern,
                arguments.get("glob"),
                query.context,
            )
            ignores = not await self._is_ignored(names)
            with suppress(OSError):
                matches = await self._ripgrep.search(names, criteria, limit, ignores=ignores)
                if matches is not None:
                    return matches
        return await self._walked(names, arguments.get("glob"), query, limit)

    async def _walked(self, names: Names, glob: str | None, query: Query, limit: int) -> Matches:
        entries = await walk(self._workspace, names, recursive=True, find_ignored=self._find_ignored)
        files = [
            (*names, *below)
            for below, node in entries
            if node.kind == "file" and (glob is None or globs.matches(glob, below))
        ]
        return Matches(await self._workspace.search(files, query, limit), len(entries) > limits.ENTRIES)

    async def _files(self, names: Names, glob: str) -> list[Names] | None:
        """The files below a directory that a glob matches; None if ripgrep is not used, or fails."""
        if self._ripgrep is None:
            return None
        await self._workspace.scan([names])  # says why, if it is no directory
        with suppress(OSError):
            return await self._ripgrep.files(names, glob, ignores=not await self._is_ignored(names))
        return None

    async def _is_ignored(self, names: Names) -> bool:
        return bool(names) and bool(await self._find_ignored([joined(names)]))

    def _nodes(self, top: Names, files: Sequence[Names]) -> list[tuple[Names, Node]]:
        """Files with their sizes; not those that have gone meanwhile."""
        assert isinstance(self._workspace, DiskWorkspace)
        nodes = []
        for below in files:
            with suppress(ToolFailure):
                size = self._workspace.tree.status((*top, *below)).st_size
                nodes.append((below, Node(below[-1], "file", size)))
        return nodes


def _shown(entries: Sequence[tuple[Names, Node]], pattern: str | None) -> list[dict[str, Any]]:
    return [
        {"name": "/".join(below), "type": node.kind, **({"size": node.size} if node.kind == "file" else {})}
        for below, node in entries
        if pattern is None or globs.matches(pattern, below)
    ]


def query_of(arguments: Mapping[str, Any]) -> Query:
    """What a search looks for. Raises ToolFailure INVALID_ARGUMENTS for a wrong regular expression."""
    text, case_sensitive, context = (
        arguments["query"],
        arguments.get("case_sensitive", False),
        arguments.get("context", 0),
    )
    if not arguments.get("regex"):
        return Query(re.compile(re.escape(text), re.NOFLAG if case_sensitive else re.IGNORECASE), context=context)
    import re2  # It needs linear time, unlike `re`, whatever the model asks for.

    options = re2.Options()
    options.case_sensitive, options.log_errors = case_sensitive, False
    try:
        return Query(pattern=re2.compile(text, options), context=context)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error.args[0]
        raise ToolFailure("INVALID_ARGUMENTS", f"query: not a regular expression (RE2): {reason}") from None
