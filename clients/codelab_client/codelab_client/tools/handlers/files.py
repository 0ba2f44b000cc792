"""The tools that read, find and change files."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from codelab_client.execution import ToolCall
from codelab_client.tools import fingerprints, limits
from codelab_client.tools.changes import FileChanges, encoded, text_of
from codelab_client.tools.expectations import Expectations
from codelab_client.tools.handlers import Arguments, Handler, Handlers, simple
from codelab_client.tools.paths import components, joined
from codelab_client.tools.search import Search
from codelab_client.tools.workspace import Workspace


def file_handlers(workspace: Workspace, search: Search, changes: FileChanges, expectations: Expectations) -> Handlers:
    """The handlers over a workspace. expectations: are told what the model has read."""

    async def read_file(arguments: Arguments) -> dict[str, Any]:
        return await _read_file(workspace, expectations, arguments)

    async def create_directory(arguments: Arguments) -> dict[str, Any]:
        async with changes.lock:
            await workspace.make_directory(components(arguments["path"]))
        return {"success": True}

    return {
        "read_file": simple(read_file),
        "find_files": simple(search.find_files),
        "list_files": simple(search.list_files),
        "search_in_project": simple(search.search_in_project),
        "create_directory": simple(create_directory),
        "write_file": _changing("write_file", changes.write_file),
        "edit_file": _changing("edit_file", changes.edit_file),
        "delete_file": _changing("delete_file", changes.delete_file),
        "move_file": _changing("move_file", changes.move_file),
        "apply_patch": _changing("apply_patch", changes.apply_patch),
    }


def _changing(tool: str, change: Callable[[Arguments, ToolCall], Awaitable[dict[str, Any]]]) -> Handler:
    """A tool of `FileChanges`, which knows its call by the tool's own name, whatever alias it came with."""
    return Handler(lambda arguments, call: change(arguments, replace(call.call, tool_name=tool)))


async def _read_file(workspace: Workspace, expectations: Expectations, arguments: Arguments) -> dict[str, Any]:
    names = components(arguments["path"])
    is_part = "offset" in arguments or "limit" in arguments
    file = await workspace.read(names, limits.READ_BYTES if is_part else limits.FILE_BYTES)
    expectations.note_read(names, await asyncio.to_thread(fingerprints.of_data, file.data))
    file_text = await asyncio.to_thread(text_of, file.data, names)
    text = file_text.text
    total = text.count("\n") + (not text.endswith("\n") and bool(text))
    first = arguments.get("offset", 1)
    is_beyond = first > max(1, total)
    if is_part:
        text = "" if is_beyond else _part(text, first, arguments.get("limit"))
    encoded(text, "the part" if is_part else joined(names), limits.FILE_BYTES)
    modified = datetime.fromtimestamp(file.modified, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "content": text,
        "encoding": file_text.encoding,
        "size": len(file.data),
        "modified": modified,
        **({"message": f"{joined(names)} has only {total} lines"} if is_beyond else {"first_line": first}),
        "total_lines": total,
    }


def _part(text: str, first: int, count: int | None) -> str:
    """Lines of a text with their ends, from line `first` on. Only \\n ends a line."""
    lines = text.split("\n")
    last = None if count is None else first - 1 + count
    part = "\n".join(lines[first - 1 : last])
    return part + "\n" if last is not None and last < len(lines) else part
