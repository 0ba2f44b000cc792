"""The tools that change files: each replaces only what the user has seen or the model knows (see `expectations`)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from codelab_client.execution import ToolCall
from codelab_client.tools import edits, fingerprints, limits, patches
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.expectations import Expectations, view_of
from codelab_client.tools.failure import Changed, Code, ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.placeholders import Placeholders
from codelab_client.tools.replacement import Change, Names
from codelab_client.tools.texts import FileText, kept, read_text, write_text
from codelab_client.tools.tree import Content
from codelab_client.tools.workspace import Workspace

#: Codes for a file that is another one; for other tools EXECUTION_FAILED.
_CODES: dict[str, Code] = {"edit_file": "PATCH_APPLY_FAILED", "apply_patch": "PATCH_APPLY_FAILED"}
#: Times that the user is asked again about one call.
_QUESTIONS = 5
#: Files of a directory that are deleted without a user, at most.
_FILES = 500


@dataclass(frozen=True)
class _Before:
    """A file before a patch. text: bytes that are not text in a known encoding are surrogates."""

    content: Content | None
    text: str | None
    encoding: str = "utf-8"


class FileChanges:
    """See the module. Every method takes a call's checked arguments and the call, and returns its result.

    asks: entered while the user is asked about a call.
    """

    def __init__(
        self,
        workspace: Workspace,
        expectations: Expectations,
        dialogue: Dialogue | None,
        asks: Callable[[ToolCall], AbstractAsyncContextManager[None]],
    ) -> None:
        self._workspace, self._expectations, self._dialogue, self._asks = workspace, expectations, dialogue, asks
        #: Held while files are read and changed.
        self.lock = asyncio.Lock()
        self._placeholders = Placeholders()

    async def write_file(self, arguments: dict[str, Any], call: ToolCall) -> dict[str, Any]:
        """Write a whole file, in the encoding, and with the mark and the line ends, of the one that it replaces."""
        names, content = components(arguments["path"]), arguments["content"]
        encoded(content, "content", limits.FILE_BYTES)

        async def make_change() -> dict[str, Any]:
            old = await self._current_content(names)
            await self._check(call, names, None if old is None else fingerprints.of_data(old.data), loses=True)
            text = None if old is None else read_text(old.data)
            self._placeholders.check(joined(names), content, "" if text is None else text.text, "EXECUTION_FAILED")
            if old is not None and text is None and not self._expectations.was_shown(call.call_id):
                raise ToolFailure("ENCODING_ERROR", f"{joined(names)} is binary: only the user can replace it")
            encoding = "utf-8" if text is None else text.encoding
            after = kept(content, text)
            data = write_text(after, encoding, joined(names))
            await self._put(names, data, old)
            note = {} if after == content and encoding == "utf-8" else {"message": _encoding_note(after, encoding)}
            return {"success": True, "bytes_written": len(data), **note}

        return await self._make(call, make_change)

    async def edit_file(self, arguments: dict[str, Any], call: ToolCall) -> dict[str, Any]:
        """Replace texts of a file."""
        names = components(arguments["path"])
        edit_list = [
            edits.Edit(edit["old"], edit["new"], edit.get("replace_all", False)) for edit in arguments["edits"]
        ]

        async def make_change() -> dict[str, Any]:
            old = await self._current_content(names, limits.FILE_BYTES)
            if old is None:
                raise ToolFailure("FILE_NOT_FOUND", f"{joined(names)}: No such file or directory")
            await self._check(call, names, fingerprints.of_data(old.data))
            text = text_of(old.data, names)
            for edit in edit_list:
                self._placeholders.check(joined(names), edit.new, edit.old, "PATCH_APPLY_FAILED")
            result = await asyncio.to_thread(edits.apply, text.text, edit_list, joined(names))
            encoded(result.text, joined(names), limits.FILE_BYTES)
            await self._put(names, write_text(result.text, text.encoding, joined(names)), old)
            matched_field = {"matched": result.whitespace} if result.whitespace else {}
            return {"success": True, "replacements": result.replacements, **matched_field}

        return await self._make(call, make_change)

    async def delete_file(self, arguments: dict[str, Any], call: ToolCall) -> dict[str, Any]:
        """Delete a file or a directory."""
        names = components(arguments["path"])

        async def make_change() -> dict[str, Any]:
            now = await self._workspace.fingerprint(names)
            await self._check(call, names, now, loses=True)
            await self._workspace.delete(names, now)
            self._expectations.note_change(names, now, None)
            return {"success": True}

        return await self._make(call, make_change)

    async def move_file(self, arguments: dict[str, Any], call: ToolCall) -> dict[str, Any]:
        """Move a file or a directory to a free name."""
        source, target = components(arguments["from"]), components(arguments["to"])

        async def make_change() -> dict[str, Any]:
            now = await self._workspace.fingerprint(source)
            await self._check(call, source, now)
            await self._workspace.move(source, target)
            self._expectations.note_move(source, target, now)
            return {"success": True}

        return await self._make(call, make_change)

    async def apply_patch(self, arguments: dict[str, Any], call: ToolCall) -> dict[str, Any]:
        """Apply a diff, completely or not at all."""
        diff = arguments["diff"]
        encoded(diff, "diff", limits.DIFF_BYTES)
        files = await asyncio.to_thread(patches.parse, diff)

        async def make_change() -> dict[str, Any]:
            before = {names: await self._before(names) for file in files for names in (file.old, file.new) if names}
            for names, old in before.items():
                await self._check(call, names, _fingerprint(old.content), diff=diff)
            after = await asyncio.to_thread(patches.apply, files, lambda names: _patched(before[names]))
            changes = list(_changes(files, before, after))
            # What is removed comes first: a file may take the place of a directory that becomes empty, or the reverse.
            await self._workspace.apply(sorted(changes, key=lambda change: change.data is not None))
            for change in changes:
                now = None if change.data is None else fingerprints.of_data(change.data)
                self._expectations.note_change(change.names, _fingerprint(before[change.names].content), now)
            return {"success": True, "files_modified": [joined(change.names) for change in changes]}

        return await self._make(call, make_change)

    # -- what a call expects -----------------------------------------------------------------------------------------

    async def _make(self, call: ToolCall, make_change: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Make a change; if the file is not as the user saw it, ask again with what would change now."""
        for _ in range(_QUESTIONS):
            try:
                async with self.lock:
                    return await make_change()
            except Changed as error:
                if not await self._asks_again(call, error.message):
                    raise ToolFailure(
                        _CODES.get(call.tool_name, "EXECUTION_FAILED"),
                        f"{error.message}: read it again. Nothing was changed",
                    ) from None
        raise ToolFailure("EXECUTION_FAILED", "The files change all the time: nothing was changed")

    async def _asks_again(self, call: ToolCall, reason: str) -> bool:
        """Show the call to the user again. False if nobody has seen it, or can. Raises ToolFailure for a no."""
        if self._dialogue is None or not self._expectations.was_shown(call.call_id):
            return False
        before = await view_of(self._workspace, call.tool_name, call.arguments)
        async with self._asks(call):
            is_wanted = await self._dialogue.confirm(call.tool_name, call.arguments, reason)
        if not is_wanted:
            raise ToolFailure("PERMISSION_DENIED", f"{reason}. The user did not want the change any more")
        self._expectations.note_shown(call.call_id, before, before)
        return True

    async def _check(
        self, call: ToolCall, names: Names, now: str | None, *, loses: bool = False, diff: str = ""
    ) -> None:
        """Raise Changed or ToolFailure if the file is not what the call is about. loses: its content will be gone."""
        self._expectations.check_shown(call.call_id, names, now, diff)
        if not loses or self._expectations.was_shown(call.call_id):
            return
        if not fingerprints.is_directory(now):
            self._expectations.check_known(names, now)
            return
        for below in await self._files(names):
            self._expectations.check_known(below, await self._workspace.fingerprint(below))

    async def _files(self, top: Names) -> list[Names]:
        """All files below a directory. Raises ToolFailure if there are too many to know."""
        files: list[Names] = []
        level = [top]
        while level:
            listings = await self._workspace.scan(level)
            nodes = [
                ((*above, node.name), node) for above, below in zip(level, listings, strict=True) for node in below
            ]
            files += [names for names, node in nodes if node.kind == "file"]
            level = [names for names, node in nodes if node.kind == "directory"]
            if len(files) + len(level) > _FILES:
                reason = (
                    f"{joined(top)} has more than {_FILES} files that you have not read: only the user can delete it"
                )
                raise ToolFailure("EXECUTION_FAILED", reason)
        return files

    # -- files -------------------------------------------------------------------------------------------------------

    async def _current_content(self, names: Names, limit: int = limits.READ_BYTES) -> Content | None:
        """A file; None if there is none. Raises ToolFailure if a link leads there: changes do not follow links."""
        fingerprint = await self._workspace.fingerprint(names)
        if fingerprints.is_link(fingerprint):
            await self._workspace.apply([Change(names, b"", expected=None)])
        try:
            return await self._workspace.read(names, limit)
        except ToolFailure as failure:
            if failure.code == "FILE_NOT_FOUND":
                return None
            raise

    async def _put(self, names: Names, data: bytes, old: Content | None) -> None:
        """Replace a file's content, or create the file."""
        expected, before = (None, None) if old is None else (old.version, old.data)
        await self._workspace.apply([Change(names, data, expected=expected, old=before)])
        self._expectations.note_change(names, _fingerprint(old), fingerprints.of_data(data))

    async def _before(self, names: Names) -> _Before:
        old = await self._current_content(names, limits.DIFF_BYTES)
        if old is None:
            return _Before(None, None)
        text = read_text(old.data)
        return (
            _Before(old, text.text, text.encoding) if text else _Before(old, old.data.decode(errors="surrogateescape"))
        )


def text_of(data: bytes, names: Names) -> FileText:
    """The text of a file. Raises ToolFailure ENCODING_ERROR."""
    text = read_text(data)
    if text is None:
        raise ToolFailure("ENCODING_ERROR", f"{joined(names)} is binary, or in an encoding that is not known")
    return text


def encoded(text: str, name: str, limit: int) -> bytes:
    """A text as UTF-8. Raises ToolFailure: ENCODING_ERROR or FILE_TOO_LARGE."""
    data = write_text(text, "utf-8", name)
    if len(data) > limit:
        raise ToolFailure("FILE_TOO_LARGE", f"{name} has {len(data)} bytes; at most {limit} are allowed")
    return data


def _encoding_note(text: str, encoding: str) -> str:
    ends = " with CRLF line ends" if "\r\n" in text else ""
    return f"Written in {encoding}{ends}{' and a byte order mark' if text.startswith(chr(0xFEFF)) else ''}, as before"


def _fingerprint(content: Content | None) -> str | None:
    return None if content is None else fingerprints.of_data(content.data)


def _patched(before: _Before) -> patches.Patched:
    return patches.Patched(before.text, None if before.content is None else before.content.mode)


def _changes(
    files: list[patches.FilePatch], before: dict[Names, _Before], after: dict[Names, patches.Patched]
) -> "list[Change]":
    """What becomes of the files. Each is written in the encoding of the file whose text it has."""
    sources = {file.new: file.old for file in files if file.old and file.new}
    changes = []
    for names, patched in after.items():
        old = before[names]
        if patched == _patched(old):
            continue
        source = before[sources.get(names) or names]
        data = None if patched.text is None else _bytes(patched.text, source.encoding, names)
        content, mode = old.content, patched.mode if patched.mode != _patched(old).mode else None
        version, content_data = (None, None) if content is None else (content.version, content.data)
        changes.append(Change(names, data, mode, version, old=content_data))
    return changes


def _bytes(text: str, encoding: str, names: Names) -> bytes:
    if encoding == "utf-8":
        return text.encode(errors="surrogateescape")
    return write_text(text, encoding, joined(names))
