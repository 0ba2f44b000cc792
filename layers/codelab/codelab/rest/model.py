"""Having `llm_request` ask the model, while the caller waits."""

import json
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from codelab import aws
from codelab.config import settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.requests import errors


def ask(request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Have `llm_request` run a bare Request within `timeout_s`, and wait for what it answers.

    Raises ProtocolError: INVALID_ARGUMENTS for what is wrong with it, LLM_ERROR for a model that gave no answer,
    RATE_LIMITED, PAYLOAD_TOO_LARGE.
    """
    event = {"kind": "request", **request, "timeout_s": timeout_s}
    try:
        answer = aws.waiting_lambda_client().invoke(
            FunctionName=settings().llm_function, InvocationType="RequestResponse", Payload=json.dumps(event).encode()
        )
        payload = json.loads(answer["Payload"].read())
    except ReadTimeoutError:
        raise _no_answer("deadline", "it did not answer in time") from None
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 429:
            raise ProtocolError(ErrorCode.RATE_LIMITED, "The model is asked too much at once; try again") from None
        if status == 413:
            raise ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, "A Request may have 6 MB") from None
        raise
    if "FunctionError" not in answer:
        found: dict[str, Any] = payload
        return found
    kind, message = payload.get("errorType", ""), payload.get("errorMessage", "")
    if kind == "InvalidRequest":
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, message)
    known = getattr(errors, kind, None)
    if known is None:  # it has died, or run out of time
        raise _no_answer("failed", "it could not be asked")
    raise _no_answer(known.code, message)


def _no_answer(reason: str, message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.LLM_ERROR, f"The model failed: {message}", details={"reason": reason})
