"""Error codes of the protocol, and the one exception that carries them to a frame."""

from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """Every code a client can meet, on the WebSocket or over REST."""

    INVALID_FORMAT = "INVALID_FORMAT"
    INVALID_TYPE = "INVALID_TYPE"
    MISSING_FIELD = "MISSING_FIELD"
    INVALID_CALL_ID = "INVALID_CALL_ID"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FILE_TOO_LARGE = "FILE_TOO_LARGE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    INVALID_PATH = "INVALID_PATH"
    PATH_OUTSIDE_WORKSPACE = "PATH_OUTSIDE_WORKSPACE"
    GIT_NOT_INITIALIZED = "GIT_NOT_INITIALIZED"
    GIT_ERROR = "GIT_ERROR"
    PATCH_APPLY_FAILED = "PATCH_APPLY_FAILED"
    ENCODING_ERROR = "ENCODING_ERROR"
    TIMEOUT = "TIMEOUT"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    UNAUTHORIZED = "UNAUTHORIZED"
    AGENT_ERROR = "AGENT_ERROR"
    LLM_ERROR = "LLM_ERROR"
    CONTEXT_TOO_LARGE = "CONTEXT_TOO_LARGE"
    DATABASE_ERROR = "DATABASE_ERROR"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    RATE_LIMITED = "RATE_LIMITED"
    BUSY = "BUSY"


#: Other names of one meaning, accepted wherever a client names an error.
ALIASES = {
    "TOOL_EXECUTION_ERROR": ErrorCode.EXECUTION_FAILED,
    "TOOL_EXECUTION_FAILED": ErrorCode.EXECUTION_FAILED,
    "INVALID_TOOL": ErrorCode.TOOL_NOT_FOUND,
}

#: Sending the same again later can succeed.
RETRYABLE = frozenset(
    {
        ErrorCode.BUSY,
        ErrorCode.RATE_LIMITED,
        ErrorCode.DATABASE_ERROR,
        ErrorCode.TIMEOUT,
        ErrorCode.AGENT_ERROR,
    }
)


def known_code(name: str) -> ErrorCode:
    """The code that a client's error names; one we do not know means that the execution failed."""
    try:
        return ErrorCode(name)
    except ValueError:
        return ALIASES.get(name, ErrorCode.EXECUTION_FAILED)


class ProtocolError(Exception):
    """A refusal. Turned into an `error` frame in one place, `codelab.gateway.app`.

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
        self.retryable = code in RETRYABLE if retryable is None else retryable
