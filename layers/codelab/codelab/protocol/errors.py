"""Error codes of the protocol, what each means, and the one exception that carries them to a frame."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """Every code a client can meet, on the WebSocket or over REST. `FACTS` says what each means."""

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
    """Where a code is met. The value says it in words."""

    REPLY = "an `error` frame that refuses one of your frames"
    TURN = "an `error` frame that ends a turn"
    CALL = "the result of a call: the IDE sends it, or the server tells it the model"
    REST = "the body of an HTTP answer"


@dataclass(frozen=True)
class CodeFacts:
    """What there is to know about a code.

    `meaning` in a few words, `sent` when it is sent, `met` where. `retryable`: the same again may succeed later; an
    `error` frame says so itself in its field of that name, which may differ where it knows better.
    """

    meaning: str
    sent: str
    met: tuple[Where, ...]
    retryable: bool = False


_REPLY, _TURN, _CALL, _REST = Where.REPLY, Where.TURN, Where.CALL, Where.REST

FACTS: Mapping[ErrorCode, CodeFacts] = {
    ErrorCode.INVALID_FORMAT: CodeFacts(
        "Not a JSON object",
        "The frame or body is no JSON, no object, or holds what JSON cannot say again (a lone surrogate, 1e400).",
        (_REPLY, _REST),
    ),
    ErrorCode.INVALID_TYPE: CodeFacts(
        "No such type of frame", "`type` is missing or unknown. The message lists the types that there are.", (_REPLY,)
    ),
    ErrorCode.MISSING_FIELD: CodeFacts("A field is missing", "`details.field` is missing, or null.", (_REPLY, _REST)),
    ErrorCode.INVALID_ARGUMENTS: CodeFacts(
        "A field or an argument is wrong",
        "`details.field` has a wrong type or a value that is not allowed; or a call's arguments do not fit its tool.",
        (_REPLY, _CALL, _REST),
    ),
    ErrorCode.INVALID_CALL_ID: CodeFacts(
        "No such open call",
        "The call is not of this session, or is settled and this is not the same result or decision once more. In a "
        "result: the agent wants to read on in a result that there is not.",
        (_REPLY, _CALL, _REST),
    ),
    ErrorCode.PERMISSION_DENIED: CodeFacts(
        "Not allowed",
        "A viewer sent a result, or a result came before the approval that it needs. In a result: the user's system or "
        "the agent's rules do not allow it.",
        (_REPLY, _CALL, _REST),
    ),
    ErrorCode.BUSY: CodeFacts(
        "A turn is running",
        "A message came while a turn runs and the session says `when_busy: reject`, or too many messages wait.",
        (_REPLY, _REST),
        retryable=True,
    ),
    ErrorCode.RATE_LIMITED: CodeFacts(
        "Too many",
        "Over what the user may use: `details.quota` says of what, `retry_after` in how many seconds to try again; a "
        "turn ends so where the day's tokens are used up. Or more connections than a session may have: the oldest, "
        "which gets this, is closed (not retryable). Over REST also: the model is asked too much at once.",
        (_REPLY, _TURN, _REST),
        retryable=True,
    ),
    ErrorCode.UNAUTHORIZED: CodeFacts(
        "No valid token",
        "The token of `refresh_token` is not valid or another user's, or the connection's was revoked; over REST there "
        "is none or it is not valid. On connecting, the answer is HTTP 401 or 403 instead.",
        (_REPLY, _REST),
    ),
    ErrorCode.SESSION_EXPIRED: CodeFacts(
        "The connection's token has expired",
        "A frame came after its `exp`: send `refresh_token` within a minute, or connect with a new one.",
        (_REPLY,),
    ),
    ErrorCode.SESSION_NOT_FOUND: CodeFacts(
        "No such session", "The session was never there, was deleted, or is another user's.", (_REPLY, _REST)
    ),
    ErrorCode.DATABASE_ERROR: CodeFacts(
        "Storage failed", "Nothing was changed: send the same again.", (_REPLY, _REST), retryable=True
    ),
    ErrorCode.PAYLOAD_TOO_LARGE: CodeFacts(
        "Too many bytes",
        "A frame that is to be sent by reference, the arguments of a call that the model wrote, or what a request says "
        "of its session, are over the limit; or a call's result closed its connection (1009).",
        (_REPLY, _CALL, _REST),
    ),
    ErrorCode.CONTEXT_TOO_LARGE: CodeFacts(
        "More than the model's context takes",
        "The message alone does not fit, or one more file in the context does not; over REST, nor does a Request.",
        (_REPLY, _TURN, _REST),
    ),
    ErrorCode.LLM_ERROR: CodeFacts(
        "The model failed",
        "It could not be reached, refused, or gave no valid answer; `details.reason` says which, `status` what its "
        "provider answered with, `request_id` where the log says more, and `retryable` whether the same message may "
        "work later.",
        (_TURN, _REST),
    ),
    ErrorCode.AGENT_ERROR: CodeFacts(
        "The agent failed",
        "The turn could not be finished: its step died again and again, or the agent repeats a call that fails. Or a "
        "frame met a fault of the server.",
        (_REPLY, _TURN, _REST),
        retryable=True,
    ),
    ErrorCode.TOOL_NOT_FOUND: CodeFacts(
        "No such tool",
        "The model called, or a request names, a tool that is not there; or the IDE does not have it.",
        (_CALL, _REST),
    ),
    ErrorCode.EXECUTION_FAILED: CodeFacts(
        "The tool failed",
        "The IDE says so without saying more, or with a code that is not listed here; or a call that has failed again "
        "and again was not made.",
        (_CALL, _REST),
    ),
    ErrorCode.TIMEOUT: CodeFacts(
        "No result in time",
        "The IDE did not answer by the call's `deadline`, or says that the tool took too long.",
        (_CALL, _REST),
        retryable=True,
    ),
    ErrorCode.CANCELLED: CodeFacts(
        "The turn was cancelled", "The call was open when the user stopped it.", (_CALL, _REST)
    ),
    ErrorCode.FILE_NOT_FOUND: CodeFacts("No such file or directory", "The IDE did not find it.", (_CALL,)),
    ErrorCode.FILE_TOO_LARGE: CodeFacts(
        "Larger than the tool takes",
        "A file to read or write, a diff, or a file for the context is over the limit.",
        (_REPLY, _CALL, _REST),
    ),
    ErrorCode.INVALID_PATH: CodeFacts(
        "Not a path", "It is empty, too long, or holds NUL or what is no UTF-8.", (_REPLY, _CALL, _REST)
    ),
    ErrorCode.PATH_OUTSIDE_WORKSPACE: CodeFacts(
        "Not inside the workspace",
        "It is absolute, goes up by `..`, or names a drive, a share or a home directory.",
        (_REPLY, _CALL, _REST),
    ),
    ErrorCode.ENCODING_ERROR: CodeFacts(
        "Not UTF-8 text", "A file is binary or in another encoding, or text cannot be written as UTF-8.", (_CALL,)
    ),
    ErrorCode.GIT_NOT_INITIALIZED: CodeFacts("No git repository", "The workspace is none.", (_CALL,)),
    ErrorCode.GIT_ERROR: CodeFacts("git failed", "The message is what git says.", (_CALL,)),
    ErrorCode.PATCH_APPLY_FAILED: CodeFacts("The patch does not apply", "Nothing was changed.", (_CALL,)),
}

#: Other names of one meaning, accepted wherever a client names an error. REST spells two codes so.
ALIASES = {
    "TOOL_EXECUTION_ERROR": ErrorCode.EXECUTION_FAILED,
    "TOOL_EXECUTION_FAILED": ErrorCode.EXECUTION_FAILED,
    "INVALID_TOOL": ErrorCode.TOOL_NOT_FOUND,
}


def known_code(name: str) -> ErrorCode:
    """The code that a client's error names; one we do not know means that the execution failed."""
    try:
        return ErrorCode(name)
    except ValueError:
        return ALIASES.get(name, ErrorCode.EXECUTION_FAILED)


class ProtocolError(Exception):
    """A refusal. What a frame is refused with becomes an `error` frame in `codelab.gateway.app`.

    `details` may hold `field`, the name of the offending field, and whatever helps to correct the input.
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
        self.retryable = FACTS[code].retryable if retryable is None else retryable
