"""One MCP server: started or connected to, its tools listed, its tools called."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client import __version__
from codelab_client.mcp.config import ServerConfig
from codelab_client.mcp.confinement import Confinement
from codelab_client.mcp.sign_in import SIGN_IN_S, Show, SignIn
from codelab_client.mcp.transports import Streams, address, program

if TYPE_CHECKING:
    from mcp import ClientSession, types

#: Seconds until a server must have listed its tools.
_START_S = 60.0
_STOP_S = 5.0
_MOST_TOOLS = 200
#: How often a server may ask in one call, and the seconds until it is asked again that has asked for nothing.
_MOST_ROUNDS, _ROUND_S = 10, 0.1
#: Seconds between a server's word that it has other tools and the next look at them. They double with every look, up to
#: the longest; after that time without a word they are the first ones again.
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 60.0


#: Asks the user for a server: its name, what it says, and the JSON Schema of the answer; None if the user gives none.
Ask = Callable[[str, str, Any], Awaitable[Mapping[str, Any] | None]]


class McpError(Exception):
    """A server cannot be reached, or a call failed. The text says why."""


class Connection:
    """A running server. `tools` are those that it offers; `on_change` is called when they become others.

    ask: lets it ask the user in a form, as long as a call of it runs; without it, the server is told that it cannot.
    show: lets it have the user sign in as it starts.
    """

    def __init__(
        self,
        server: ServerConfig,
        workspace: Path,
        log: Path,
        on_change: Callable[[], None],
        ask: Ask | None = None,
        show: Show | None = None,
    ) -> None:
        self.server, self._workspace, self._log, self._on_change = server, workspace, log, on_change
        self._show = show
        self._start_limit: asyncio.Timeout | None = None
        self._ask, self._calls, self._is_idle = ask, 0, asyncio.Event()
        self.tools: Sequence[types.Tool] = ()
        self._session: ClientSession | None = None
        self._stop = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._is_stale = False
        #: Whether it has ended by itself after it was ready.
        self.has_crashed = False
        self._pause, self._listed_at = _PAUSE_S, 0.0
        self._has_started: Callable[[], None] = lambda: None

    @property
    def is_open(self) -> bool:
        """Whether the server runs, as far as is known."""
        return self._session is not None

    @property
    def revision(self) -> str:
        """The revision of MCP that both have agreed on; empty if the server does not run."""
        return (self._session.protocol_version or "") if self._session is not None else ""

    async def open(self) -> None:
        """Start the server and list its tools. Raises McpError."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        limit = self._start_limit = asyncio.timeout(_START_S)
        self._task = asyncio.ensure_future(self._run(ready))
        try:
            async with limit:
                await asyncio.shield(ready)
        except TimeoutError:
            await self.aclose()
            raise McpError(f"{self.server.name} is not ready after {_START_S:.0f} seconds") from None

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float | None) -> "types.CallToolResult":
        """Call a tool. Raises McpError, or TimeoutError after so many seconds."""
        if self._session is None:
            raise McpError(f"{self.server.name} is not running")
        self._calls += 1
        self._is_idle.clear()
        try:
            async with asyncio.timeout(seconds):
                return await _result(self._session, tool, arguments)
        except TimeoutError:
            raise
        except Exception as error:
            if _is_end(error):  # which nobody else notices
                self._stop.set()
            raise McpError(_told(error)) from None
        finally:
            self._calls -= 1
            if not self._calls:
                self._is_idle.set()

    async def aclose(self) -> None:
        """Stop the server."""
        self._closing = True
        self._stop.set()
        if self._listing is not None:
            self._listing.cancel()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_STOP_S)
            self._task.cancel()
            with contextlib.suppress(BaseException):
                await self._task

    async def _run(self, ready: "asyncio.Future[None]") -> None:
        """Keep the server open until it is stopped. One task does all of it, because its scopes belong to a task."""
        try:
            async with self._connected() as session:
                await _negotiate(session)
                self.tools = await _listed(session)
                self._session = session
                self._has_started()
                if not ready.done():
                    ready.set_result(None)
                async with asyncio.TaskGroup() as tasks:
                    listening = tasks.create_task(self._listen(session))
                    await self._stop.wait()
                    listening.cancel()
        except Exception as error:
            if not ready.done():
                hint = f". It ran in the sandbox; {self._log} has what it wrote" if self.server.sandboxed else ""
                ready.set_exception(McpError(f"{self.server.name} does not start: {_told(error)}{hint}"))
        finally:
            self.has_crashed = self._session is not None and not self._closing
            self._session, self.tools = None, ()
            if not ready.done():
                ready.set_exception(McpError(f"{self.server.name} was stopped"))
            if not self._closing:
                self._on_change()

    @contextlib.asynccontextmanager
    async def _connected(self) -> "AsyncIterator[ClientSession]":
        await asyncio.to_thread(__import__, "mcp")  # which takes a second
        # What it logs is told as an error. Without a handler Python would write it into the terminal.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        from mcp import ClientSession, types

        async def take(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                self._tools_are_stale()

        class Unvalidated(ClientSession):
            """Does not evaluate the server's own schema of results: its patterns may take any time."""

            async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
                pass

        info = types.Implementation(name="codelab", version=__version__)
        async with (
            self._transport() as (reading, writing),
            Unvalidated(
                reading,
                writing,
                client_info=info,
                message_handler=take,
                elicitation_callback=None if self._ask is None else self._elicit,
            ) as session,
        ):
            yield session

    async def _listen(self, session: "ClientSession") -> None:
        """Hear from a server of the newer revision when its tools are others. An older one says it unasked."""
        from mcp.client import subscriptions

        capabilities = session.server_capabilities
        if session.discover_result is None or capabilities is None or capabilities.tools is None:
            return
        with contextlib.suppress(Exception):  # It may answer anything, and its tools are there without.
            async with subscriptions.listen(session, tools_list_changed=True) as changes:
                async for _ in changes:
                    self._tools_are_stale()

    def _tools_are_stale(self) -> None:
        self._is_stale = True
        if self._listing is None or self._listing.done():
            self._listing = asyncio.ensure_future(self._list_again())

    async def _elicit(self, context: object, params: "types.ElicitRequestParams") -> "types.ElicitResult":
        """Have the user fill in a form of the server, unless nothing that runs can want it (any more)."""
        from mcp import types

        if self._ask is None or not isinstance(params, types.ElicitRequestFormParams) or not self._calls:
            return types.ElicitResult(action="decline")
        asking = asyncio.ensure_future(self._ask(self.server.name, params.message, params.requested_schema))
        ending = asyncio.ensure_future(self._is_idle.wait())
        try:
            await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
            content = asking.result() if asking.done() else None
        finally:
            asking.cancel()
            ending.cancel()
        if content is None:
            return types.ElicitResult(action="decline" if asking.done() else "cancel")
        return types.ElicitResult(action="accept", content=dict(content))

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Streams]:
        server = self.server.expanded(workspace=self._workspace)
        if server.url:
            sign_in = SignIn(server, None if self._show is None else self._sign_in)
            async with address(server, sign_in) as streams:
                self._has_started = partial(setattr, sign_in, "is_starting", False)
                yield streams
            return
        confinement = await asyncio.to_thread(Confinement.of, server, self._workspace)
        async with program(confinement.launch(), server.env, self._log) as streams:
            yield streams

    async def _sign_in(self, name: str, url: str) -> bool:
        if self._start_limit is not None:
            self._start_limit.reschedule(asyncio.get_running_loop().time() + SIGN_IN_S + _START_S)
        return self._show is not None and await self._show(name, url)

    async def _list_again(self) -> None:
        """List the tools after a pause, and again if the server has meanwhile said that they are others."""
        clock = asyncio.get_running_loop().time
        if clock() - self._listed_at > _LONGEST_PAUSE_S:
            self._pause = _PAUSE_S
        while self._is_stale:
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            self._is_stale, self._listed_at = False, clock()
            if self._session is None:
                return
            with contextlib.suppress(Exception):
                tools = await _listed(self._session)
                if tools != self.tools:
                    self.tools = tools
                    self._on_change()


async def _negotiate(session: "ClientSession") -> None:
    """Agree on a revision: the newest one, or the one of the handshake with a server that does not know it."""
    from mcp.shared.exceptions import MCPError

    try:
        await session.discover()
    except (MCPError, RuntimeError, ValueError) as error:
        if _is_end(error):
            raise
        await session.initialize()


async def _result(session: "ClientSession", tool: str, arguments: Mapping[str, Any]) -> "types.CallToolResult":
    """The result of a call, in which a server of the newer revision may ask for something before it answers."""
    from mcp import types
    from mcp.client.session import ClientRequestContext

    answers: dict[str, Any] = {"input_responses": None, "request_state": None}
    for _ in range(_MOST_ROUNDS):
        result = await session.call_tool(tool, dict(arguments), allow_input_required=True, **answers)
        if isinstance(result, types.CallToolResult):
            return result
        responses = {}
        for name, request in (result.input_requests or {}).items():
            context = ClientRequestContext(session=session, request_id=name)
            response = await session.dispatch_input_request(context, request)
            if isinstance(response, types.ErrorData):
                raise McpError(response.message)
            responses[name] = response
        if not responses:
            await asyncio.sleep(_ROUND_S)
        answers = {"input_responses": responses, "request_state": result.request_state}
    raise McpError("The server asks again and again")


async def _listed(session: "ClientSession") -> "Sequence[types.Tool]":
    from mcp import types

    tools: list[types.Tool] = []
    cursor = None
    while len(tools) < _MOST_TOOLS:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or not page.tools:
            break
    return tools[:_MOST_TOOLS]


def _is_end(error: Exception) -> bool:
    """Whether the server has ended."""
    import anyio
    from mcp import types
    from mcp.shared.exceptions import MCPError

    if isinstance(error, MCPError):
        return error.code == types.CONNECTION_CLOSED
    return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (str(error) or type(error).__name__)[:500]
