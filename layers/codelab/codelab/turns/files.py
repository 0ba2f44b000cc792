"""The session's context files, which the user or a tool changes. The agent sees them with every Request.

The register stores the files' sizes; the content is in FILE items.
"""

from posixpath import normpath
from typing import Any

from codelab.llm.tokens import estimate_tokens
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import ContextUpdate
from codelab.protocol.outgoing import ContextUpdated
from codelab.protocol.paths import workspace_path
from codelab.protocol.tools import CATALOGUE
from codelab.sessions import keys
from codelab.sessions.items import CallItem, FileItem
from codelab.sessions.register import FileEntry, Register
from codelab.sessions.spending import Spending
from codelab.sessions.transition import Transition
from codelab.turns import quotas
from codelab.turns.caller import Caller
from codelab.turns.connections import touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft
from codelab.turns.platforms import path_rules
from codelab.turns.quotas import QuotaNeed

#: Tools that show or change the content of files.
_TOUCHING = frozenset({"read_file", "write_file", "edit_file", "apply_patch", "delete_file", "move_file"})


@decision(ContextUpdate, quota=QuotaNeed.COUNTERS)
def context_update(draft: Draft, caller: Caller, frame: ContextUpdate) -> Transition:
    """Add or replace a file, remove a file, or remove all files.

    Raises ProtocolError: INVALID_ARGUMENTS for another session's id, INVALID_PATH, PATH_OUTSIDE_WORKSPACE,
    FILE_TOO_LARGE, CONTEXT_TOO_LARGE, RATE_LIMITED.
    """
    register = draft.register
    if frame.session_id not in (None, register.session_id):
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            "session_id is not this connection's session",
            details={"field": "session_id"},
        )
    touch(draft, caller)
    if frame.action == "add_file" and frame.data.content:
        quotas.spend(draft, caller.plan, Spending(stored_bytes=len(frame.data.content.encode())))
    _change(draft, frame)
    connection = register.connections.get(caller.connection_id)
    if connection is not None and connection.extensions:
        answer = ContextUpdated(
            action=frame.action, path=frame.data.path, files=len(register.files), context_size=context_tokens(register)
        )
        draft.replies.append((caller.connection_id, answer))
    return draft.finish()


def _change(draft: Draft, frame: ContextUpdate) -> None:
    register = draft.register
    if frame.action == "clear":
        draft.deletes += map(keys.file_key, register.files)
        register.files = {}
        return
    path = _checked_path(frame.data.path or "", draft)
    if frame.action == "add_file":
        _put(draft, path, frame.data.content)
        _check_bounds(register)
    elif register.files.pop(keys.file_digest(path), None) is not None:
        draft.deletes.append(keys.file_key(keys.file_digest(path)))


def context_tokens(register: Register) -> int:
    """The tokens of all context files, uncut."""
    return sum(file.tokens for file in register.files.values())


def update_from_result(draft: Draft, call: CallItem, result: Any) -> None:
    """Update the context files that a tool has read or written.

    If the new content is unknown, the stored content is dropped, and the agent reads the file again.
    """
    if not draft.register.files or (isinstance(result, dict) and result.get("success") is False):
        return
    if call.tool not in _TOUCHING:
        return
    arguments = draft.value(call.effective_arguments)
    if call.tool == "read_file":
        content = result.get("content") if isinstance(result, dict) else None
        if set(arguments) == {"path"} and isinstance(content, str):  # other arguments ask for a part of the file
            _replace(draft, arguments["path"], content)
    elif call.tool == "write_file":
        _replace(draft, arguments["path"], arguments["content"])
    else:
        for path in CATALOGUE[call.tool].paths_of(arguments):
            _replace(draft, path, None)


def _replace(draft: Draft, path: str, content: str | None) -> None:
    """Replace the content if this is a context file. A file that exceeds the bounds loses its content."""
    path, register = normpath(path), draft.register
    entry = register.files.get(keys.file_digest(path))
    if entry is None:
        return
    try:
        _put(draft, path, content)
        _check_bounds(register)
    except ProtocolError:
        _put(draft, path, None)


def _put(draft: Draft, path: str, content: str | None) -> None:
    size = len((content or "").encode())
    if size > limits.CONTEXT_FILE_BYTES:
        raise ProtocolError(
            ErrorCode.FILE_TOO_LARGE,
            f"{path} has {size} bytes; at most {limits.CONTEXT_FILE_BYTES} are allowed. Add it without content",
            details={"field": "data.content"},
        )
    digest = keys.file_digest(path)
    entry = draft.register.files.get(digest)
    tokens = estimate_tokens(content or "")
    added_at = draft.now if entry is None else entry.added_at
    draft.register.files[digest] = FileEntry(tokens, size, added_at)
    file = FileItem(path, content, tokens, added_at, updated_at=draft.now)
    draft.put(file)


def _check_bounds(register: Register) -> None:
    size = sum(file.size for file in register.files.values())
    if len(register.files) > limits.CONTEXT_FILES:
        problem = f"The context can have at most {limits.CONTEXT_FILES} files; remove one first"
    elif size > limits.CONTEXT_BYTES:
        problem = f"The context files can have at most {limits.CONTEXT_BYTES} bytes in total; add it without content"
    else:
        return
    raise ProtocolError(ErrorCode.CONTEXT_TOO_LARGE, problem, details={"field": "data"}, retryable=False)


def _checked_path(path: str, draft: Draft) -> str:
    rules = path_rules(draft)
    try:
        relative_path = workspace_path(path, lenient=rules["lenient_paths"], posix=rules["posix_paths"])
        return normpath(relative_path.replace("\\", "/"))  # a Windows client's backslashes
    except ProtocolError as error:
        error.details["field"] = "data.path"
        raise
