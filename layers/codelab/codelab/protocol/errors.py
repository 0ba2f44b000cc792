"""The protocol's error codes and the exception that carries them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """Every code a client can receive, on the WebSocket or over REST. `FACTS` explains each."""

    INVALID_FORMAT = "INVALID_FORMAT"
    INVALID_TYPE = "INVALID_TYPE"
    MISSING_FIELD = "MISSING_FIELD"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    INVALID_CALL_ID = "INVALID_CALL_ID"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    BUSY = "BUSY"
    RATE_LIMITED = "RATE_LIMITED"
    UNAUTHORIZED = "UNAUTHORIZED"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    DATABASE_ERROR = "DATABASE_ERROR"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    CONTEXT_TOO_LARGE = "CONTEXT_TOO_LARGE"
    LLM_ERROR = "LLM_ERROR"
    AGENT_ERROR = "AGENT_ERROR"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FILE_TOO_LARGE = "FILE_TOO_LARGE"
    INVALID_PATH = "INVALID_PATH"
    PATH_OUTSIDE_WORKSPACE = "PATH_OUTSIDE_WORKSPACE"
    ENCODING_ERROR = "ENCODING_ERROR"
    GIT_NOT_INITIALIZED = "GIT_NOT_INITIALIZED"
    GIT_ERROR = "GIT_ERROR"
    PATCH_APPLY_FAILED = "PATCH_APPLY_FAILED"


class Where(StrEnum):
    """Where a client can see a code. The value describes the place."""

    REPLY = "an `error` frame that rejects one of your frames"
    TURN = "an `error` frame that ends a turn"
    CALL = "the result of a call, sent by the IDE or by the server to the model"
    REST = "the body of an HTTP response"


@dataclass(frozen=True)
class CodeFacts:
    """Documentation of a code.

    meaning: in a few words. occasion: when it is sent. places: where a client sees it.
    retryable: the default; the same request may succeed later. An `error` frame's own `retryable` overrides it.
    """

    meaning: str
    occasion: str
    places: tuple[Where, ...]
    retryable: bool = False


_REPLY, _TURN, _CALL, _HTTP = Where.REPLY, Where.TURN, Where.CALL, Where.REST

FACTS: Mapping[ErrorCode, CodeFacts] = {
    ErrorCode.INVALID_FORMAT: CodeFacts(
        "Not a JSON object",
        "The frame or body is not valid JSON, is not an object, or contains a value that JSON cannot represent (a lone "
        "surrogate, 1e400).",
        (_REPLY, _HTTP),
    ),
    ErrorCode.INVALID_TYPE: CodeFacts(
        "Unknown frame type", "`type` is missing or unknown. The message lists the valid types.", (_REPLY,)
    ),
    ErrorCode.MISSING_FIELD: CodeFacts(
        "A field is missing", "The field named in `details.field` is missing or null.", (_REPLY, _HTTP)
    ),
    ErrorCode.INVALID_ARGUMENTS: CodeFacts(
        "A field or an argument is invalid",
        "The field named in `details.field` has the wrong type or a value that is not allowed, or a call's arguments "
        "do not match its tool.",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.INVALID_CALL_ID: CodeFacts(
        "No such open call",
        "The session has no such call, or the call is already settled with a different result or decision. In a "
        "result: the agent asked for more of a result that does not exist.",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.PERMISSION_DENIED: CodeFacts(
        "Not allowed",
        "A viewer sent a result, or a result arrived before the call was approved. In a result: the user's system or "
        "the agent's rules do not allow the call.",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.BUSY: CodeFacts(
        "A turn is running",
        "A message arrived during a turn and the session has `when_busy: reject`, or too many messages are queued.",
        (_REPLY, _HTTP),
        retryable=True,
    ),
    ErrorCode.RATE_LIMITED: CodeFacts(
        "Too many requests",
        "The user is over a quota: `details.quota` names it, `retry_after` says in how many seconds to try again. A "
        "turn ends with this when the day's tokens are used up. It is also sent to a session's oldest connection when "
        "a newer one takes its place (not retryable), and over REST when too many Requests run at once.",
        (_REPLY, _TURN, _HTTP),
        retryable=True,
    ),
    ErrorCode.UNAUTHORIZED: CodeFacts(
        "No valid token",
        "The token in `refresh_token` is invalid or belongs to another user, or the connection's token was revoked; "
        "over REST the token is missing or invalid. A refused connection gets HTTP 401 instead.",
        (_REPLY, _HTTP),
    ),
    ErrorCode.SESSION_EXPIRED: CodeFacts(
        "The connection's token has expired",
        "A frame arrived after the token's `exp`: send `refresh_token` within a minute, or reconnect with a new token.",
        (_REPLY,),
    ),
    ErrorCode.SESSION_NOT_FOUND: CodeFacts(
        "No such session",
        "The session does not exist, was deleted, or belongs to another user.",
        (_REPLY, _HTTP),
    ),
    ErrorCode.DATABASE_ERROR: CodeFacts(
        "Storage failed", "Nothing was changed: send the same frame or request again.", (_REPLY, _HTTP), retryable=True
    ),
    ErrorCode.PAYLOAD_TOO_LARGE: CodeFacts(
        "Too many bytes",
        "A frame sent by reference, the arguments of a call by the model, or a session's `metadata` is over its limit; "
        "or a call's result was so large that it closed its connection (1009).",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.CONTEXT_TOO_LARGE: CodeFacts(
        "Larger than the model's context",
        "The message alone, one more context file or, over REST, a Request does not fit. Or the model's provider "
        "refused a session's context as too large, and again when half of it was left out.",
        (_REPLY, _TURN, _HTTP),
    ),
    ErrorCode.LLM_ERROR: CodeFacts(
        "The model failed",
        "The model could not be reached, refused, or gave no valid answer: `details.reason` says which, "
        "`details.status` is the provider's HTTP status, `details.request_id` finds the entry in the log. `retryable` "
        "says whether the same message may succeed later.",
        (_TURN, _HTTP),
    ),
    ErrorCode.AGENT_ERROR: CodeFacts(
        "The agent failed",
        "The turn could not be finished: its step crashed repeatedly, or the agent keeps repeating a failing call. Or "
        "the server failed to process a frame.",
        (_REPLY, _TURN, _HTTP),
        retryable=True,
    ),
    ErrorCode.TOOL_NOT_FOUND: CodeFacts(
        "No such tool",
        "The model or a request names a tool that does not exist, or the IDE does not have it.",
        (_CALL, _HTTP),
    ),
    ErrorCode.EXECUTION_FAILED: CodeFacts(
        "The tool failed",
        "The IDE reported an error without a code or with a code not listed here; or the server did not make a call "
        "again that had failed repeatedly.",
        (_CALL, _HTTP),
    ),
    ErrorCode.TIMEOUT: CodeFacts(
        "No result in time",
        "The IDE did not answer by the call's `deadline`, or reported that the tool took too long.",
        (_CALL, _HTTP),
        retryable=True,
    ),
    ErrorCode.CANCELLED: CodeFacts(
        "The turn was cancelled", "The call was open when the user cancelled its turn.", (_CALL, _HTTP)
    ),
    ErrorCode.FILE_NOT_FOUND: CodeFacts("No such file or directory", "The IDE did not find it.", (_CALL,)),
    ErrorCode.FILE_TOO_LARGE: CodeFacts(
        "File or diff too large",
        "A file to read or write, a diff, or a context file is over the limit.",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.INVALID_PATH: CodeFacts(
        "Invalid path",
        "The path is empty or too long, is not valid UTF-8, or contains NUL, control or invisible characters, or `:`, "
        "which only clients on Linux or macOS take.",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.PATH_OUTSIDE_WORKSPACE: CodeFacts(
        "Outside the workspace",
        "The path is absolute, contains `..`, or names a drive, a share or a home directory.",
        (_REPLY, _CALL, _HTTP),
    ),
    ErrorCode.ENCODING_ERROR: CodeFacts(
        "Not text",
        "A file is binary or in an encoding that the IDE does not know, or a text cannot be written in it.",
        (_CALL,),
    ),
    ErrorCode.GIT_NOT_INITIALIZED: CodeFacts("No git repository", "The workspace is not a git repository.", (_CALL,)),
    ErrorCode.GIT_ERROR: CodeFacts("git failed", "The message is git's output.", (_CALL,)),
    ErrorCode.PATCH_APPLY_FAILED: CodeFacts(
        "The patch does not apply",
        "Or the file was changed since the user saw the edit. Nothing was changed.",
        (_CALL,),
    ),
}

#: Synonyms, accepted wherever a client names an error. REST uses two of them in its answers.
ALIASES = {
    "TOOL_EXECUTION_ERROR": ErrorCode.EXECUTION_FAILED,
    "TOOL_EXECUTION_FAILED": ErrorCode.EXECUTION_FAILED,
    "INVALID_TOOL": ErrorCode.TOOL_NOT_FOUND,
}


def known_code(name: str) -> ErrorCode:
    """The code a client's error names; an unknown one becomes EXECUTION_FAILED."""
    try:
        return ErrorCode(name)
    except ValueError:
        return ALIASES.get(name, ErrorCode.EXECUTION_FAILED)


class ProtocolError(Exception):
    """A refusal. `codelab.gateway.app` sends it as an `error` frame, `codelab.rest.error_responses` as an HTTP answer.

    `details` may hold `field`, the name of the offending field, and anything else that helps to correct the input.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        call_id: str | None = None,
        details: dict[str, Any] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.call_id = call_id
        self.details = details or {}
        #: What else names the refused frame: its `client_msg_id` and its `request_id`.
        self.names: dict[str, str] = {}
        self.retryable = FACTS[code].retryable if retryable is None else retryable
