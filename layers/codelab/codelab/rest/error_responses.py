"""Error answers: every kind of error becomes `{"error": {code, message, details}}`, and only here."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from codelab.aws.errors import AwsError
from codelab.observability import logger, metrics
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.rest.bodies import with_example

#: Codes that have another name in this API (Agent Runtime API, "Коды ошибок").
_NAMES = {
    ErrorCode.TOOL_NOT_FOUND: "INVALID_TOOL",
    ErrorCode.EXECUTION_FAILED: "TOOL_EXECUTION_FAILED",
}

_STATUS = {
    ErrorCode.INVALID_FORMAT: 400,
    ErrorCode.TOOL_NOT_FOUND: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.SESSION_NOT_FOUND: 404,
    ErrorCode.INVALID_CALL_ID: 404,
    ErrorCode.BUSY: 409,
    ErrorCode.CONTEXT_TOO_LARGE: 413,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.FILE_TOO_LARGE: 413,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.EXECUTION_FAILED: 500,
    ErrorCode.DATABASE_ERROR: 500,
    ErrorCode.AGENT_ERROR: 500,
    ErrorCode.LLM_ERROR: 502,
}
#: The status of all other codes: the request is wrong.
_DEFAULT_STATUS = 422


class Refusal(BaseModel):
    """An error: a code for programs, a message for humans, and details that help to correct the request."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorAnswer(BaseModel):
    """The body of every error response."""

    model_config = with_example(error={"code": "SESSION_NOT_FOUND", "message": "No such session", "details": {}})

    error: Refusal


def status_of(code: ErrorCode) -> int:
    """The HTTP status of a code."""
    return _STATUS.get(code, _DEFAULT_STATUS)


def name_of(code: ErrorCode) -> str:
    """The code as this API spells it."""
    return _NAMES.get(code, code.value)


#: By reference: FastAPI would build a validator of the model for every status of every operation, at every cold start.
_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}


def document(app: FastAPI) -> None:
    """Add the schemas that `refusals` uses to the app's OpenAPI document."""
    generate = app.openapi

    def with_errors() -> dict[str, Any]:
        openapi = generate()
        schema = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
        openapi["components"]["schemas"].update({**schema.pop("$defs"), "ErrorAnswer": schema})
        return openapi

    app.openapi = with_errors  # type: ignore[method-assign]


def refusals(*codes: ErrorCode) -> dict[int | str, dict[str, Any]]:
    """The documented errors of an operation: `codes`, and those that every operation may answer with."""
    responses: dict[int | str, dict[str, Any]] = {}
    everywhere = (
        ErrorCode.INVALID_FORMAT,
        ErrorCode.UNAUTHORIZED,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.MISSING_FIELD,
        ErrorCode.DATABASE_ERROR,
        ErrorCode.AGENT_ERROR,
    )
    for code in (*codes, *everywhere):
        status = status_of(code)
        response = responses.setdefault(status, {"description": "", "content": _CONTENT})
        response["description"] = ", ".join(filter(None, (response["description"], name_of(code))))
    return responses


def install(app: FastAPI) -> None:
    """Register the handlers that answer every error of `app` in the API's form."""
    app.add_exception_handler(ProtocolError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(AwsError, _storage_failed)
    app.add_exception_handler(Exception, _failed)


def answer(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> JSONResponse:
    """An error answer. code: as this API spells it."""
    return JSONResponse({"error": {"code": code, "message": message, "details": details or {}}}, status)


def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProtocolError)
    details = {**error.details, **({"call_id": error.call_id} if error.call_id else {})}
    refusal = answer(status_of(error.code), name_of(error.code), error.message, details)
    if "retry_after" in details:
        refusal.headers["Retry-After"] = str(details["retry_after"])
    return refusal


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """Pydantic's first error, with a code of the protocol."""
    assert isinstance(error, RequestValidationError)
    pydantic_error = error.errors()[0]
    place, *location = pydantic_error["loc"]
    field = ".".join(str(part) for part in location) or str(place)
    code = ErrorCode.MISSING_FIELD if pydantic_error["type"] == "missing" else ErrorCode.INVALID_ARGUMENTS
    message = (
        f"Missing {place}: {field}" if code is ErrorCode.MISSING_FIELD else f"Invalid {field}: {pydantic_error['msg']}"
    )
    return answer(status_of(code), code.value, message, {"field": field, "in": str(place)})


def _http(_request: Request, error: Exception) -> JSONResponse:
    """An error of the framework: an unknown path or method."""
    assert isinstance(error, HTTPException)
    refusal = answer(error.status_code, HTTPStatus(error.status_code).name, str(error.detail))
    refusal.headers.update(error.headers or {})
    return refusal


def _storage_failed(request: Request, error: Exception) -> JSONResponse:
    logger().error("aws call failed", extra={"path": request.url.path} | metrics(HandlersFailed=1), exc_info=error)
    return answer(500, ErrorCode.DATABASE_ERROR.value, "Storage failed; send the request again", {"retryable": True})


def _failed(request: Request, error: Exception) -> JSONResponse:
    logger().error("request failed", extra={"path": request.url.path} | metrics(HandlersFailed=1), exc_info=error)
    return answer(500, ErrorCode.AGENT_ERROR.value, "Internal error; send the request again", {"retryable": True})
