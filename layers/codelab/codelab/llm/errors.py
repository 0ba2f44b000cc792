"""What can go wrong with a Request, as types: a caller never has to read a message to know what happened.

Every error carries `code` (stable, machine readable). Errors of a call that was made also carry the usage so far and
the text that was streamed before it failed, because both were paid for and one of them was shown to somebody.
"""

from __future__ import annotations

from collections.abc import Mapping

from codelab.llm.outcome import Usage


def json_pointer(*parts: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a path of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


class RequestError(Exception):
    """The base of all errors of this package."""

    code = "request"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def public_message(self) -> str:
        """What may be said to anybody: the message, unless it is a provider's, which may name accounts and keys."""
        return self.message


class InvalidRequest(RequestError):
    """The caller's mistake, found before any call was made. `pointer` is the JSON Pointer of the wrong place."""

    code = "invalid_request"

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer or 'the root'})")
        self.pointer = pointer


class ContextTooLarge(InvalidRequest):
    """What the model would be given is more than the caller may give it."""

    code = "context_too_large"


class ModelError(RequestError):
    """A call was made (or was about to be) and gave no solution."""

    code = "call"

    def __init__(
        self, message: str, *, usage: Usage | None = None, streamed: Mapping[str, str] | None = None, attempts: int = 0
    ) -> None:
        super().__init__(message)
        self.usage = usage or Usage()
        self.streamed = dict(streamed or {})
        self.attempts = attempts

    @property
    def text(self) -> str:
        """The streamed text of the first streamed field."""
        return next(iter(self.streamed.values()), "")


class Refusal(ModelError):
    """The model declined; the message is its reason."""

    code = "refusal"


class Length(ModelError):
    """`finish_reason: length`: the answer did not fit into the output limit."""

    code = "length"


class ContentFilter(ModelError):
    """The provider's filter stopped the answer."""

    code = "content_filter"


class Truncated(ModelError):
    """The stream ended without a finish reason: half an answer."""

    code = "truncated"


class Empty(ModelError):
    """The model finished and said nothing."""

    code = "empty"


class InvalidJson(ModelError):
    """The answer is not JSON, also after the repairs."""

    code = "invalid_json"


class InvalidAnswer(ModelError):
    """The answer does not validate against the schema, also after the repairs. `errors` says why."""

    code = "invalid_answer"

    def __init__(
        self,
        message: str,
        *,
        errors: list[str] | None = None,
        usage: Usage | None = None,
        streamed: Mapping[str, str] | None = None,
        attempts: int = 0,
    ) -> None:
        super().__init__(message, usage=usage, streamed=streamed, attempts=attempts)
        self.errors = errors or []


class TransportError(ModelError):
    """The provider could not be reached or answered with an error.

    `status` is the HTTP status, or None when there was no answer; `retryable` says whether the same call may work
    later; `retry_after` is the provider's own wish in seconds; `body` is the provider's error object as text.
    """

    code = "transport"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        body: str = "",
        usage: Usage | None = None,
        streamed: Mapping[str, str] | None = None,
        attempts: int = 0,
    ) -> None:
        super().__init__(message, usage=usage, streamed=streamed, attempts=attempts)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.body = body

    @property
    def public_message(self) -> str:
        if self.status is not None:
            return f"its provider answered with status {self.status}"
        return "its provider could not be reached, or broke off" if self.retryable else "its provider's answer is none"


class DeadlineExceeded(ModelError):
    """The caller's deadline passed."""

    code = "deadline"


class Cancelled(ModelError):
    """The caller cancelled."""

    code = "cancelled"
