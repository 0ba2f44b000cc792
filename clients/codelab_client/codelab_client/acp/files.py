"""A folder whose texts are read and written through the editor, which knows what its user has not saved yet."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from codelab_client.acp.jsonrpc import Peer, RpcError
from codelab_client.acp.params import Editor
from codelab_client.acp.running_call import running_call
from codelab_client.tools import fingerprints, limits
from codelab_client.tools.failure import Changed, ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.tree import ANY, Change, Content, Names
from codelab_client.tools.workspace import DiskWorkspace, finished, in_threads

_MARK = "\ufeff"
#: Parts of a version on the disk; one that is not saved has one more.
_VERSION = 4
#: Called with a call's id, a file's absolute path, and its text before (None: there was no file) and after.
OnEdit = Callable[[str, str, str | None, str], None]


class EditorWorkspace(DiskWorkspace):
    """A directory, and the editor's view of the texts in it. See Workspace.

    The disk says which files exist, where links lead and what is no text; the editor is asked only for texts inside the
    directory. If it cannot answer, the disk does. Deleted files, modes and links never pass through the editor.
    """

    def __init__(
        self,
        root: Path,
        peer: Peer,
        editor: Editor,
        session_id: str,
        on_edit: OnEdit,
        reserved_names: Collection[str] = (),
    ) -> None:
        super().__init__(root, reserved_names)
        self._peer, self._editor, self._session_id, self._on_edit = peer, editor, session_id, on_edit

    async def read(self, names: Names, limit: int) -> Content:
        """See Workspace."""
        content = await super().read(names, limit)
        if not self._editor.reads:
            return content
        on_disk = _text(content.data)
        if on_disk is None:
            return content
        text = await self._ask_for(names)
        if text is None or text == on_disk or text == _with_lf(on_disk):
            return content
        if "\r\n" in on_disk and "\r" not in text:
            text = text.replace("\n", "\r\n")  # an editor may keep line ends apart from the text
        if on_disk.startswith(_MARK) and not text.startswith(_MARK):
            text = _MARK + text
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > limit:
            raise ToolFailure("FILE_TOO_LARGE", f"{joined(names)} has {len(data)} bytes; at most {limit} are allowed")
        return replace(content, data=data, version=(*content.version, hash(data)))

    async def apply(self, changes: Sequence[Change]) -> None:
        """See Workspace. If the editor refuses one of several texts, those before it are put back."""
        before = {change.names: await self._before(change) for change in changes}
        through_editor = [change for change in changes if self._is_for_editor(change, before[change.names])]
        self._check(changes, before)
        applied_changes: list[Change] = []
        try:
            old_contents = {names: old.data for names, old in before.items() if old is not None}
            async with in_threads(self.recorder.changing(through_editor, alone=False, editor_contents=old_contents)):
                for change in through_editor:
                    await self._write(change.names, _decoded(change))
                    applied_changes.append(change)
            disk_changes = [
                _for_disk(change, is_checked=bool(applied_changes))
                for change in changes
                if change not in through_editor
            ]
            if disk_changes:
                await super().apply(disk_changes)
        except ToolFailure:
            for change in reversed(applied_changes):
                await self._put_back(change.names, before[change.names])
            raise
        for change in changes:
            if change.data is not None and not change.link and (after := _text(change.data)) is not None:
                old = before[change.names]
                text = None if old is None else old.data.decode(errors="replace")
                self._on_edit(running_call.get(), str(self.root.joinpath(*change.names)), text, after)

    async def fingerprint(self, names: Names) -> str | None:
        """See Workspace. What the user has not saved yet counts as content."""
        on_disk = await super().fingerprint(names)
        if not self._editor.reads or on_disk is None or not on_disk.startswith("file "):
            return on_disk
        try:
            return fingerprints.of_data((await self.read(names, limits.READ_BYTES)).data)
        except ToolFailure:
            return on_disk

    async def delete(self, names: Names, expected: str | None = None) -> None:
        """See Workspace."""
        if expected is not None and expected != await self.fingerprint(names):
            raise Changed(f"{joined(names)} was changed meanwhile")
        await super().delete(names, None if expected is None else await super().fingerprint(names))

    # -- the editor ----------------------------------------------------------------------------------------------

    async def _ask_for(self, names: Names) -> str | None:
        """The editor's text of a file; None if it has none. A link that leads away meanwhile gives none either."""
        before = await finished(self._real, names)
        try:
            answer = await self._peer.request("fs/read_text_file", self._params(before))
        except RpcError:
            return None
        text = answer.get("content") if isinstance(answer, dict) else None
        is_same = await finished(self._real, names) == before
        return text if isinstance(text, str) and is_same else None

    async def _write(self, names: Names, text: str) -> None:
        if self.tree.kind(names) is None and names[:-1]:
            await super().make_directory(names[:-1])
        try:
            path = await finished(self._writable, names)
            await self._peer.request("fs/write_text_file", {**self._params(path), "content": text})
        except RpcError as error:
            reason = f"The editor did not write {joined(names)}: {error.message[:300]}"
            raise ToolFailure("EXECUTION_FAILED", reason) from None

    async def _put_back(self, names: Names, old: Content | None) -> None:
        with suppress(ToolFailure, RpcError):
            if old is None:
                await super().delete(names)
            else:
                await self._write(names, old.data.decode())

    def _params(self, path: Path) -> dict[str, Any]:
        return {"sessionId": self._session_id, "path": str(path)}

    def _real(self, names: Names) -> Path:
        """Where a file is, without links on the way to it. Raises ToolFailure if that is outside."""
        with self.tree.directory(names[:-1]) as (_, folder):
            path = folder / names[-1]
        if self.tree.kind(names) == "symlink":
            path = path.resolve()
            if not path.is_relative_to(self.tree.root):
                raise ToolFailure("PATH_OUTSIDE_WORKSPACE", f"{joined(names)} leads out of the workspace")
        return path

    def _writable(self, names: Names) -> Path:
        """The path of a file or a free name, without links in it. Raises ToolFailure."""
        path = self.root.joinpath(*names)
        if not names or self._real(names) != path or self.tree.kind(names) not in ("file", None):
            raise ToolFailure("PERMISSION_DENIED", f"{joined(names)} is not a plain file")
        return path

    # -- changes -------------------------------------------------------------------------------------------------

    async def _before(self, change: Change) -> Content | None:
        """The file that a change replaces; None if there is none, or none that can be read."""
        try:
            return await self.read(change.names, limits.DIFF_BYTES)
        except ToolFailure:
            return None

    def _is_for_editor(self, change: Change, old: Content | None) -> bool:
        return (
            self._editor.writes
            and change.data is not None
            and change.mode is None
            and not change.link
            and not change.replaces_links
            and _text(change.data) is not None
            and (old is None or _text(old.data) is not None)
        )

    def _check(self, changes: Sequence[Change], before: dict[Names, Content | None]) -> None:
        """Raise Changed if a file is not the one that a change expects."""
        for change in changes:
            old = before[change.names]
            is_same = change.expected in (ANY, None if old is None else old.version)
            if not is_same or (change.old is not None and (old is None or old.data != change.old)):
                raise Changed(f"{joined(change.names)} was changed meanwhile")


def _text(data: bytes) -> str | None:
    """Bytes as text; None if they are not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _for_disk(change: Change, *, is_checked: bool) -> Change:
    """The change for the disk, where what the user has not saved in the editor is not."""
    if is_checked:
        return replace(change, expected=ANY, old=None)
    if change.expected is not None and len(change.expected) > _VERSION:
        return replace(change, expected=change.expected[:_VERSION], old=None)
    return change


def _decoded(change: Change) -> str:
    assert change.data is not None
    return change.data.decode()


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n").removeprefix("\ufeff")
