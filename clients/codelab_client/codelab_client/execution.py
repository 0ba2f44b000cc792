"""What a session asks of the program that executes tool calls, and what it gets back.

A session gives the executor every `tool_call` with `requires_approval: false` (and without `execute: false`) exactly
once, and sends what comes back as the `tool_result`. The names are those of docs/frames.md.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, runtime_checkable

#: What a call can do: read, change files, or run any program.
Risk = Literal["read", "write", "execute"]
#: What the server takes of a client's own tools (docs/protocol.md, "An IDE's own tools").
MOST_DECLARED_TOOLS = 32
MOST_DECLARED_BYTES = 32_000
#: The streams of a command.
Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class ToolCall:
    """A `tool_call` frame: its fields, with `arguments` fetched if the frame had a `payload_url`.

    deadline: milliseconds since the epoch, or None.
    risk: None if the frame does not say.
    parent_call_id: the agent's call of `delegate`, if a subagent makes the call.
    """

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    requires_approval: bool = False
    turn_id: str | None = None
    deadline: int | None = None
    risk: Risk | None = None
    parent_call_id: str | None = None

    @property
    def own_call_id(self) -> str:
        """The call of the agent itself: this one, or that of `delegate`."""
        return self.parent_call_id or self.call_id

    @classmethod
    def from_frame(cls, frame: Mapping[str, Any], arguments: Mapping[str, Any] | None = None) -> Self:
        """Read a `tool_call` frame. arguments: those fetched from its `payload_url`, if it has one."""
        return cls(
            call_id=frame["call_id"],
            tool_name=frame["tool_name"],
            arguments=arguments if arguments is not None else frame.get("arguments") or {},
            requires_approval=bool(frame.get("requires_approval", False)),
            turn_id=frame.get("turn_id"),
            deadline=frame.get("deadline"),
            risk=frame.get("risk"),
            parent_call_id=frame.get("parent_call_id"),
        )


@dataclass(frozen=True)
class ToolError:
    """Why a call failed. code: one of docs/errors.md that a call can have. message: for the model."""

    code: str
    message: str


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of a call: a result (any JSON, None included) or, if `error` is set, an error."""

    result: Any = None
    error: ToolError | None = None

    @classmethod
    def failed(cls, code: str, message: str) -> Self:
        """The outcome of a call that failed."""
        return cls(error=ToolError(code, message))

    @property
    def status(self) -> Literal["ok", "error"]:
        """Whether the call succeeded."""
        return "ok" if self.error is None else "error"

    def fields(self) -> dict[str, Any]:
        """The fields of the `tool_result` frame, besides its type and `call_id`: `result` or `error`."""
        if self.error is not None:
            return {"error": {"code": self.error.code, "message": self.error.message}}
        return {"result": self.result}


#: Called with each piece of a running command's output, in order: which stream, and the text. The session sends it as a
#: `tool_result` with `{stream: text, "exit_code": None}` and `offset`, the number of characters of all pieces before it
#: in both streams. How long the executor waits for it bounds how fast the command may write.
OnOutput = Callable[[Stream, str], Awaitable[None]]


class ToolExecutor(Protocol):
    """Executes tool calls. Many calls may run at once."""

    @property
    def tools_supported(self) -> Sequence[str]:
        """The names of the tools that it executes. It answers any other with TOOL_NOT_FOUND."""
        ...

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """Execute a call and return its outcome; never raises for what the call asks.

        It ends by the call's `deadline` with TIMEOUT, and soon after `cancel` with CANCELLED. If the task that awaits
        it is cancelled, the call is cancelled too, and its processes have ended when CancelledError is raised.
        """
        ...

    async def cancel(self, call_id: str) -> None:
        """Stop a running call and wait until its processes have ended. Does nothing if no such call runs."""
        ...

    async def aclose(self) -> None:
        """Cancel all running calls, stop the processes that `run_persistent` started, and wait for their end."""
        ...


@dataclass(frozen=True)
class DeclaredTool:
    """A tool of the client's own, which `hello` declares. parameters: a JSON Schema of an object.

    trusted: the user trusts its words, or they are the client's own. The model gets others as data.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    read_only: bool = False
    trusted: bool = False

    def declaration(self) -> dict[str, Any]:
        """The tool as `hello` has it."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
            "read_only": self.read_only,
            **({"trusted": True} if self.trusted else {}),
        }

    @property
    def size(self) -> int:
        """Bytes that it takes of `MOST_DECLARED_BYTES`: those of its declaration, and of what the server adds."""
        return len(json.dumps(self.declaration(), ensure_ascii=False).encode("utf-8", "replace")) + 100


@runtime_checkable
class DeclaresTools(Protocol):
    """A ToolExecutor with tools of its own besides those of the catalogue."""

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """The tools that it has now."""
        ...


@runtime_checkable
class OffersMoreTools(DeclaresTools, Protocol):
    """One that may have more tools than the server takes, and chooses which of them are declared."""

    #: Declares those that are `offered_tools` now. Returns why some are left out, by name; raises SessionError.
    #: A session sets it.
    declare: Callable[[], Awaitable[Mapping[str, str]]] | None

    @property
    def offered_tools(self) -> Sequence[DeclaredTool]:
        """Those of `declared_tools` that the agent gets now."""
        ...
