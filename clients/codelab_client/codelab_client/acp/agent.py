"""The agent: answers the editor's requests, and knows its sessions."""

import asyncio
import contextlib
import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client import __version__
from codelab_client.acp import params as given
from codelab_client.acp.jsonrpc import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    Peer,
    RpcError,
    RpcResult,
)
from codelab_client.acp.params import Editor
from codelab_client.acp.stdio import Stdio
from codelab_client.session.address import Address, checked_session_id
from codelab_client.session.errors import InvalidAddress, SessionError, Unauthorized, Unreachable

if TYPE_CHECKING:
    from codelab_client.acp.conversation import EditorConversation
    from codelab_client.config import Config
    from codelab_client.project.permissions import ProjectPermissions
    from codelab_client.session.rest import RestError
    from codelab_client.session.tokens import Token

Params = Mapping[str, Any]

_PROTOCOL_VERSION = 1
#: Sessions that are open at once.
_MOST_SESSIONS = 50
#: Seconds to wait for all sessions at the end.
_END_S = 15.0
_PAGE = 50
#: Characters of a title that the server takes.
_TITLE_CHARS = 200
_NO_TOKEN = (
    "Run `codelab login`, or set CODELAB_TOKEN or CODELAB_TOKEN_FILE in the agent's environment and start it again"
)
_NO_SERVER = "Start one with `make run` in a checkout of codelab-serverless, or set CODELAB_URL"

_SUPPORTED: dict[str, Any] = {}
CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {
        **dict.fromkeys(("list", "resume", "close", "delete", "additionalDirectories"), _SUPPORTED),
        # Not stable in ACP yet; an editor that does not know them ignores them.
        **dict.fromkeys(("fork", "title"), _SUPPORTED),
    },
    "auth": {"logout": {}},
}
_TOKEN = {"id": "token", "name": "Token", "description": _NO_TOKEN}
#: The editor runs this command with these arguments in a terminal, and then starts it anew.
_LOGINS = [
    {
        "id": "login",
        "name": "Sign in",
        "type": "terminal",
        "description": "Sign in with a browser on this machine",
        "args": ["--login"],
    },
    {
        "id": "login-device",
        "name": "Sign in with another device",
        "type": "terminal",
        "description": "Sign in with a browser on any device, by a code",
        "args": ["--login=device"],
    },
]


@dataclass(frozen=True)
class Server:
    """The server, and how commands run. token: gives the newest one. sandboxed: never in the editor's terminals."""

    address: Address
    token: "Token"
    sandboxed: bool


class Agent:
    """One connection with an editor, which may have many sessions."""

    def __init__(self, server: Server, stdio: Stdio) -> None:
        self._server, self._stdio = server, stdio
        self.peer = Peer(stdio.write, self._handle, self._notified)
        self._editor: Editor | None = None
        self._sessions: dict[str, EditorConversation] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._methods: dict[str, Callable[[Params], Awaitable[Any]]] = {
            "authenticate": self._authenticate,
            "logout": self._logout,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/fork": self._fork,
            "session/set_title": self._set_title,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_config_option,
        }

    async def aclose(self) -> None:
        """Stop everything. Sessions stay on the server."""
        sessions = list(self._sessions.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await asyncio.gather(*(conversation.aclose() for conversation in sessions), return_exceptions=True)
        await self.peer.aclose()

    async def _handle(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            return self._initialize(params)
        if self._editor is None:
            raise RpcError(INVALID_REQUEST, "initialize must come first")
        if method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method[:100]}")
        return await self._methods[method](params)

    def _notified(self, method: str, params: Params) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if method == "session/cancel" and session is not None:
            self._begin(session.cancel())

    # -- the connection ------------------------------------------------------------------------------------------

    def _initialize(self, params: Params) -> RpcResult:
        version = params.get("protocolVersion")
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= 65_535:
            raise given.invalid("protocolVersion must be an integer from 0 to 65535")
        self._editor = Editor.of(params)
        result = {
            "protocolVersion": _PROTOCOL_VERSION,
            "agentCapabilities": CAPABILITIES,
            "agentInfo": {"name": "codelab", "title": "CodeLab", "version": __version__},
            "authMethods": [*(_LOGINS if self._editor.logs_in else ()), _TOKEN],
        }
        return RpcResult(result, lambda: self._begin(asyncio.to_thread(_load_the_rest)))

    async def _authenticate(self, params: Params) -> dict[str, Any]:
        method = given.text(params, "methodId")
        if method != _TOKEN["id"]:
            raise given.invalid(f"There is no authentication method {method[:100]!r}")
        from codelab_client.session.rest import RestError

        try:
            await self._rest_api.get("/agents")
        except RestError as error:
            raise self._refused(error) from None
        except SessionError as error:
            raise _told(error) from None
        return {}

    async def _logout(self, _: Params) -> dict[str, Any]:
        """Forget the kept login, and close the sessions. Raises RpcError if the environment names a token."""
        from codelab_client.login.command import log_out
        from codelab_client.session import tokens

        try:
            await log_out(self._server.address)
            if await tokens.current(self._server.token):
                raise RpcError(INTERNAL_ERROR, "The agent's environment still names a token")
        except SessionError as error:
            raise _told(error) from None
        await asyncio.gather(*map(self._leave, list(self._sessions)))
        return {}

    # -- sessions ------------------------------------------------------------------------------------------------

    async def _new(self, params: Params) -> RpcResult:
        from codelab_client.session import new_session_id

        conversation = await self._open(new_session_id(), params, None)
        config = _config(conversation.root)
        try:
            await conversation.answer_with(config.agent, config.model)
        except RpcError:
            await self._leave(conversation.session_id)
            raise
        return RpcResult(
            {"sessionId": conversation.session_id, **conversation.configuration()}, lambda: conversation.start()
        )

    async def _load(self, params: Params) -> RpcResult:
        from codelab_client.acp import history
        from codelab_client.session.rest import RestError

        session_id, _ = _session_id(params), given.folders(params)
        turn_id, last_seq = await self._state(session_id)
        try:
            messages, reaches = await self._rest_api.messages(session_id)
        except RestError as error:
            raise self._refused(error) from None
        if turn_id is not None:  # what happened in the running turn comes with its frames
            messages = [message for message in messages if message.get("turn_id") != turn_id]
        conversation = await self._open(session_id, params, 0 if turn_id is not None else reaches or last_seq, turn_id)
        history.replay(messages, conversation.folders, conversation.send)
        return RpcResult(conversation.configuration(), conversation.start)

    async def _resume(self, params: Params) -> RpcResult:
        conversation = await self._resumed(_session_id(params), params)
        return RpcResult(conversation.configuration(), conversation.start)

    async def _fork(self, params: Params) -> RpcResult:
        session_id = _session_id(params)
        given.folder(params)
        copy = await self._of_session(session_id, self._rest_api.post(f"/sessions/{session_id}/fork", {}))
        try:
            copy_id = checked_session_id(str(copy.get("session_id")))
        except InvalidAddress as error:
            raise _told(error) from None
        conversation = await self._resumed(copy_id, params)
        result = {"sessionId": conversation.session_id, **conversation.configuration()}
        return RpcResult(result, conversation.start)

    async def _set_title(self, params: Params) -> dict[str, Any]:
        session_id, title = _session_id(params), " ".join(given.text(params, "title").split())[:_TITLE_CHARS]
        if not title:
            raise given.invalid("title must not be empty")
        await self._of_session(session_id, self._rest_api.patch(f"/sessions/{session_id}", {"title": title}))
        if (conversation := self._sessions.get(session_id)) is not None:
            conversation.updates.entitle(title)
        return {"title": title}

    async def _list(self, params: Params) -> dict[str, Any]:
        from urllib.parse import quote

        from codelab_client.last_sessions import folders
        from codelab_client.safe_text import safe_line
        from codelab_client.session.rest import RestError

        cwd, cursor = given.optional_text(params, "cwd"), given.optional_text(params, "cursor")
        path = f"/sessions?limit={_PAGE}" + (f"&cursor={quote(cursor, safe='')}" if cursor else "")
        try:
            page = await self._rest_api.get(path)
        except RestError as error:
            raise self._refused(error) from None
        items = page.get("sessions") if isinstance(page, dict) else None
        folder_by_session = await asyncio.to_thread(folders, self._server.address)
        sessions = [
            {
                "sessionId": session["session_id"],
                "cwd": folder_by_session[session["session_id"]],
                "title": safe_line(session.get("title") or session["session_id"]),
                **({"updatedAt": session["last_activity"]} if isinstance(session.get("last_activity"), str) else {}),
            }
            for session in (items if isinstance(items, list) else [])
            if isinstance(session, dict)
            and session.get("session_id") in folder_by_session
            and cwd in (None, folder_by_session[session["session_id"]])
        ]
        following = page.get("next_cursor") if isinstance(page, dict) else None
        return {"sessions": sessions, **({"nextCursor": following} if isinstance(following, str) else {})}

    async def _close(self, params: Params) -> dict[str, Any]:
        await self._leave(self._session(params).session_id)
        return {}

    async def _delete(self, params: Params) -> dict[str, Any]:
        from codelab_client.session.rest import RestError

        session_id = _session_id(params)
        await self._leave(session_id)
        try:
            await self._rest_api.delete(f"/sessions/{session_id}")
        except RestError as error:
            if error.status != 404:
                raise self._refused(error) from None
        return {}

    async def _prompt(self, params: Params) -> dict[str, Any]:
        session = self._session(params)
        return await session.prompt(given.objects(params, "prompt"))

    async def _set_mode(self, params: Params) -> dict[str, Any]:
        await self._session(params).choose("mode", given.text(params, "modeId"))
        return {}

    async def _set_config_option(self, params: Params) -> dict[str, Any]:
        session = self._session(params)
        await session.choose(given.text(params, "configId"), params.get("value"))
        return {"configOptions": session.configuration()["configOptions"]}

    # -- parts ---------------------------------------------------------------------------------------------------

    @property
    def _rest_api(self) -> Any:
        from codelab_client.session.rest import Rest

        return Rest(self._server.address, self._server.token)

    def _session(self, params: Params) -> "EditorConversation":
        session_id = given.text(params, "sessionId")
        if session_id not in self._sessions:
            raise RpcError(RESOURCE_NOT_FOUND, f"The session {session_id[:128]} is not open")
        return self._sessions[session_id]

    async def _state(self, session_id: str) -> tuple[str | None, int]:
        """The running turn of a session, and the number of its newest frame. Raises RpcError if there is none."""
        state = await self._of_session(session_id, self._rest_api.get(f"/sessions/{session_id}"))
        turn_id, last_seq = state.get("turn_id"), state.get("last_seq")
        newest = last_seq if isinstance(last_seq, int) and not isinstance(last_seq, bool) and last_seq >= 0 else 0
        return turn_id if isinstance(turn_id, str) else None, newest

    async def _of_session(self, session_id: str, response: Awaitable[Any]) -> Mapping[str, Any]:
        """What the REST API says of a session. Raises RpcError."""
        from codelab_client.session.rest import RestError

        try:
            content = await response
        except RestError as error:
            if error.status == 404:
                raise RpcError(RESOURCE_NOT_FOUND, f"There is no session {session_id}") from None
            raise self._refused(error) from None
        except SessionError as error:
            raise _told(error) from None
        return content if isinstance(content, dict) else {}

    async def _resumed(self, session_id: str, params: Params) -> "EditorConversation":
        turn_id, last_seq = await self._state(session_id)
        return await self._open(session_id, params, 0 if turn_id is not None else last_seq, turn_id)

    async def _open(
        self, session_id: str, params: Params, last_seq: int | None, replays: str | None = None
    ) -> "EditorConversation":
        """Open a session in the editor's folder. Raises RpcError."""
        from codelab_client import last_sessions, waiting
        from codelab_client.acp.conversation import EditorConversation
        from codelab_client.acp.mcp_servers import SessionServers, named_servers
        from codelab_client.session import connect

        assert self._editor is not None
        server, folders = self._server, given.folders(params)
        root = folders.root
        _config(root)
        permissions = _permissions(root)
        servers = SessionServers(root, named_servers(params))
        await self._leave(session_id)
        if len(self._sessions) >= _MOST_SESSIONS:
            raise RpcError(INTERNAL_ERROR, f"{_MOST_SESSIONS} sessions are open: close one first")
        conversation = EditorConversation(
            session_id,
            folders,
            self.peer,
            self._stdio,
            self._editor,
            self._rest_api,
            servers,
            permissions,
            sandboxed=server.sandboxed,
        )
        try:
            opening = connect(
                server.address,
                root,
                session_id=session_id,
                token=server.token,
                executor=conversation.executor,
                last_seq=last_seq,
                instructions=conversation.topmost_instructions,
                on_event=waiting.tell_until_open(),
                situation=conversation.situation,
                restrictions=permissions,
            )
            await conversation.open(opening, replays)
        except SessionError as error:
            raise _told(error) from None
        self._sessions[session_id] = conversation
        await asyncio.to_thread(last_sessions.remember, server.address, root, session_id)
        return conversation

    async def _leave(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.aclose()

    def _refused(self, error: "RestError") -> RpcError:
        return RpcError(AUTH_REQUIRED, f"{error}. {_NO_TOKEN}") if error.status == 401 else _told(error)

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _load_the_rest() -> None:
    """Import what the first session needs, while the user is still looking for it."""
    for name in ("codelab_client.acp.conversation", "codelab_client.acp.history", "codelab_client.session.opening"):
        importlib.import_module(name)


def _config(root: Path) -> "Config":
    """The settings for a folder. Raises RpcError if a file of settings is wrong."""
    from codelab_client.config import ConfigError, load

    try:
        return load(root)
    except ConfigError as error:
        raise RpcError(INTERNAL_ERROR, str(error)) from None


def _permissions(root: Path) -> "ProjectPermissions":
    """What the project denies, asks about and allows. Raises RpcError if nobody can read it."""
    from codelab_client.config import ConfigError
    from codelab_client.project.permissions import ProjectPermissions

    try:
        return ProjectPermissions.load(root)
    except ConfigError as error:
        raise RpcError(INTERNAL_ERROR, str(error)) from None


def _session_id(params: Params) -> str:
    session_id = given.text(params, "sessionId")
    try:
        return checked_session_id(session_id)
    except InvalidAddress:
        raise RpcError(RESOURCE_NOT_FOUND, f"There is no session {session_id[:128]!r}") from None


def _told(error: Exception) -> RpcError:
    """The answer to a request that could not reach the server."""
    from codelab_client.safe_text import safe

    if isinstance(error, Unauthorized):
        return RpcError(AUTH_REQUIRED, safe(f"{error}. {_NO_TOKEN}"))
    return RpcError(INTERNAL_ERROR, safe(f"{error}. {_NO_SERVER}" if isinstance(error, Unreachable) else error))
