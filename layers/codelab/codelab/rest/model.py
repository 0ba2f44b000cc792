"""Have `llm_request` ask the model while the caller waits."""

import re
from typing import Any

from codelab import aws
from codelab.aws.errors import AwsRefused, AwsTimeout
from codelab.config import settings
from codelab.llm import errors
from codelab.protocol.errors import ErrorCode, ProtocolError

#: The end of a failed Request's message (functions/llm_request), and how the message gives the provider's status.
_REQUEST_ID = re.compile(r"(.*) \(request ([\w-]+)\)", re.DOTALL)
_STATUS = re.compile(r"status ([1-5][0-9]{2})\)?$")
#: The end of an InvalidRequest's message: the place, as a JSON Pointer.
_PLACE = re.compile(r" \(at (/[^()]*)\)$")


class NotBegun(ProtocolError):
    """The function did not accept the Request."""


def ask(request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Have `llm_request` run a bare Request within `timeout_s` seconds, and return its answer.

    Raises ProtocolError: INVALID_ARGUMENTS or CONTEXT_TOO_LARGE if the Request is wrong, LLM_ERROR if the model gave no
    answer. Raises NotBegun: RATE_LIMITED or PAYLOAD_TOO_LARGE.
    """
    event = {"kind": "request", **request, "timeout_s": timeout_s}
    try:
        payload, has_failed = aws.waiting_lambda_client().ask(settings().llm_function, event)
    except AwsTimeout:
        raise _no_answer("deadline", "it did not answer in time") from None
    except AwsRefused as error:
        if error.status == 429:
            raise NotBegun(ErrorCode.RATE_LIMITED, "Too many concurrent Requests; try again") from None
        if error.status == 413:
            raise NotBegun(ErrorCode.PAYLOAD_TOO_LARGE, "A Request can have at most 6 MB") from None
        raise
    if not has_failed and "errorType" not in payload:
        answer: dict[str, Any] = payload
        return answer
    kind, message = payload.get("errorType", ""), payload.get("errorMessage", "")
    if kind in ("InvalidRequest", "ContextTooLarge"):
        code = ErrorCode.CONTEXT_TOO_LARGE if kind == "ContextTooLarge" else ErrorCode.INVALID_ARGUMENTS
        place = _PLACE.search(message)
        raise ProtocolError(code, message, details={"field": place[1][1:].replace("/", ".")} if place else {})
    error_class, detail_match = getattr(errors, kind, None), _REQUEST_ID.fullmatch(message)
    if error_class is None or detail_match is None:  # it crashed or ran out of time
        raise _no_answer("failed", "it could not be asked")
    status_match = _STATUS.search(detail_match[1])
    raise _no_answer(
        error_class.code,
        detail_match[1],
        **({"status": int(status_match[1])} if status_match else {}),
        request_id=detail_match[2],
    )


def next_request(user: str, session_id: str, message: str, environment: str) -> dict[str, Any]:
    """What `llm_request` would send at the session's next step. Raises ProtocolError as it does."""
    event = {"kind": "look", "user": user, "session_id": session_id, "message": message, "environment": environment}
    payload, has_failed = aws.waiting_lambda_client().ask(settings().llm_function, event)
    if has_failed:
        raise ProtocolError(ErrorCode.AGENT_ERROR, "The request could not be made")
    if "error" in payload:
        raise ProtocolError(ErrorCode(payload["error"]), payload["errorMessage"])
    request: dict[str, Any] = payload
    return request


def _no_answer(reason: str, message: str, **details: Any) -> ProtocolError:
    return ProtocolError(ErrorCode.LLM_ERROR, f"The model failed: {message}", details={"reason": reason, **details})
