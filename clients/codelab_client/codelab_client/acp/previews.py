"""What a call that waits for approval would do: the whole command, or the change of each file."""

import asyncio
from collections.abc import Mapping
from typing import Any

from codelab_client.acp import tool_calls
from codelab_client.tools import edits, limits, patches
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.texts import FileText, kept, read_text
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import DiskWorkspace


async def preview(tool: str, arguments: Mapping[str, Any], workspace: DiskWorkspace) -> list[dict[str, Any]]:
    """The content to decide on. A change that cannot be worked out is shown as the agent wrote it."""
    try:
        if tool == "write_file":
            names, after = components(str(arguments["path"])), str(arguments["content"])
            before = await _text(workspace, names)
            after = kept(after, None if before is None else FileText(before))
            return [_diff(names, before, after, workspace)]
        if tool == "edit_file":
            names = components(str(arguments["path"]))
            before = await _text(workspace, names)
            wanted = [edits.Edit(one["old"], one["new"], one.get("replace_all", False)) for one in arguments["edits"]]
            after, _ = await asyncio.to_thread(edits.apply, before or "", wanted, joined(names))
            return [_diff(names, before, after, workspace)]
        if tool == "apply_patch":
            return await _patched(str(arguments["diff"]), workspace)
    except (KeyError, TypeError, AttributeError, ToolFailure):
        pass
    return tool_calls.described(tool, arguments)


async def _patched(diff: str, workspace: DiskWorkspace) -> list[dict[str, Any]]:
    files = await asyncio.to_thread(patches.parse, diff)
    touched = dict.fromkeys(names for file in files for names in (file.old, file.new) if names)
    before = {names: await _text(workspace, names) for names in touched}
    after = await asyncio.to_thread(patches.apply, files, lambda names: patches.Patched(before[names]))
    changed = {names: patched.text for names, patched in after.items() if patched.text != before[names]}
    shown = [_diff(names, before[names], text or "", workspace) for names, text in changed.items()]
    gone = [workspace.root.joinpath(*names) for names, text in changed.items() if text is None]
    deleted = [tool_calls.shown(f"Deletes {path}") for path in gone]
    return [*shown, *deleted] or tool_calls.described("apply_patch", {"diff": diff})


async def _text(workspace: DiskWorkspace, names: Names) -> str | None:
    """A file's text; None if there is no file."""
    try:
        found = await workspace.read(names, limits.FILE_BYTES)
    except ToolFailure as failure:
        if failure.code == "FILE_NOT_FOUND":
            return None
        raise
    text = read_text(found.data)
    return found.data.decode(errors="surrogateescape") if text is None else text.text


def _diff(names: Names, before: str | None, after: str, workspace: DiskWorkspace) -> dict[str, Any]:
    path = str(workspace.root.joinpath(*names))
    return {"type": "diff", "path": path, "oldText": before, "newText": after}
