"""What a call that waits for approval would do: the whole command, or the change of each file."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from codelab_client.acp import tool_calls
from codelab_client.differences import Difference, difference, hidden_lines, lossless
from codelab_client.safe_text import exact, exact_line
from codelab_client.tools import edits, fingerprints, limits, patches, texts
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import DiskWorkspace

#: Characters of a path from which on editors may shorten it.
_PATH_CHARS = 80
#: Characters of two texts that are compared line by line.
_PLACED_CHARS = 200_000
_MODES = {"100755": "Becomes executable", "100644": "Is no program any more"}


async def preview(tool: str, arguments: Mapping[str, Any], workspace: DiskWorkspace) -> list[dict[str, Any]]:
    """The content to decide on. A change that cannot be worked out is shown as the agent wrote it."""
    try:
        if tool == "write_file":
            names, after = components(str(arguments["path"])), str(arguments["content"])
            data = await _data(workspace, names)
            return await _diff(names, _text_of(data), texts.written(data, after), workspace)
        if tool == "edit_file":
            names = components(str(arguments["path"]))
            before = await _text(workspace, names)
            edit_list = [
                edits.Edit(edit["old"], edit["new"], edit.get("replace_all", False)) for edit in arguments["edits"]
            ]
            new_text = await asyncio.to_thread(edits.apply, before or "", edit_list, joined(names))
            return await _diff(names, before, new_text.text, workspace)
        if tool == "apply_patch":
            return await _patched(str(arguments["diff"]), workspace)
        if tool == "delete_file":
            names = components(str(arguments["path"]))
            if fingerprints.is_directory(await workspace.fingerprint(names)):
                path = tool_calls.fenced(exact_line(workspace.root.joinpath(*names)))
                return [tool_calls.shown(f"Deletes the folder, with everything in it\n{path}")]
    except ToolFailure as failure:
        return [tool_calls.shown(exact(failure.message)), *tool_calls.described(tool, arguments)]
    except (KeyError, TypeError, AttributeError):
        pass
    return tool_calls.described(tool, arguments)


async def _patched(diff: str, workspace: DiskWorkspace) -> list[dict[str, Any]]:
    files = await asyncio.to_thread(patches.parse, diff)
    file_names = dict.fromkeys(names for file in files for names in (file.old, file.new) if names)
    before = {names: await _text(workspace, names) for names in file_names}
    after = await asyncio.to_thread(patches.apply, files, lambda names: patches.Patched(before[names]))
    new_texts = {names: patched.text for names, patched in after.items() if patched.text != before[names]}
    diffs = [
        block for names, text in new_texts.items() for block in await _diff(names, before[names], text or "", workspace)
    ]
    deleted_paths = [workspace.root.joinpath(*names) for names, text in new_texts.items() if text is None]
    deletions = [tool_calls.shown(f"Deletes\n{tool_calls.fenced(exact_line(path))}") for path in deleted_paths]
    modes = [
        tool_calls.shown(f"{_MODES[file.mode]}\n{tool_calls.fenced(exact_line(joined(file.new)))}")
        for file in files
        if file.new and (file.mode == "100755" or (file.mode and file.old))
    ]
    return [*diffs, *deletions, *modes] or tool_calls.described("apply_patch", {"diff": diff})


async def _text(workspace: DiskWorkspace, names: Names) -> str | None:
    """A file's text; None if there is no file."""
    return _text_of(await _data(workspace, names))


def _text_of(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = texts.read_text(data)
    return lossless(data) if text is None else text.text


async def _data(workspace: DiskWorkspace, names: Names) -> bytes | None:
    """A file's content; None if there is no file."""
    try:
        return (await workspace.read(names, limits.FILE_BYTES)).data
    except ToolFailure as failure:
        if failure.code == "FILE_NOT_FOUND":
            return None
        raise


async def _diff(names: Names, before: str | None, after: str, workspace: DiskWorkspace) -> list[dict[str, Any]]:
    """A file's change as the editor draws it, after a text that says what the editor cannot draw."""
    path = str(workspace.root.joinpath(*names))
    texts = {"oldText": None if before is None else _sent(before), "newText": _sent(after)}
    undrawn = await asyncio.to_thread(_undrawn, joined(names), before, after)
    return [*undrawn, {"type": "diff", "path": path, **texts}]


def _undrawn(path: str, before: str | None, after: str) -> list[dict[str, Any]]:
    whole = difference(before, after, path, in_place=len(before or "") + len(after) <= _PLACED_CHARS)
    name = exact_line(path)
    file_note = [f"File: {name}"] if name != path or len(name) > _PATH_CHARS else []
    hidden_text, notes = hidden_lines(whole.lines), [*file_note, *whole.notes]
    return [tool_calls.differing(Difference(hidden_text, notes))] if hidden_text or notes else []


def _sent(text: str) -> str:
    """A text that can be sent: surrogates, such as those of bytes that are not UTF-8, cannot."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)
