"""The errors of a Request. The type says what happened, so that callers need not read the message.

Each error has a stable `code`. A ModelError also has the usage so far, because it was paid for, and the streamed text,
because users have seen it.
"""

from __future__ import annotations

from collections.abc import Sequence

from codelab.llm.failures import FailureKind
from codelab.llm.outcome import Usage


def json_pointer(*parts: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a path of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


class RequestError(Exception):
    """The base of all errors of this package. code: stable and machine-readable. message: for people."""

    code = "request"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def public_message(self) -> str:
        """What any user may read: the message, unless it is the provider's, which may name accounts and keys."""
        return self.message

    @property
    def provider_words(self) -> str:
        """What the provider itself said, for the log and for an operator; empty if it said nothing."""
        return ""


class InvalidRequest(RequestError):
    """The caller made a mistake; no call was made. pointer: the JSON Pointer of the invalid value."""

    code = "invalid_request"

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer or 'the root'})")
        self.pointer = pointer


class ContextTooLarge(InvalidRequest):
    """The context and the schema are larger than the caller may send."""

    code = "context_too_large"


class ModelError(RequestError):
    """A run produced no solution.

    usage: all tokens of the run. streamed: the streamed text by field. attempts: the calls made. repairs: those that
    asked for a valid answer after an invalid one.
    """

    code = "call"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.usage = Usage()
        self.streamed: dict[str, str] = {}
        self.attempts = 0
        self.repairs = 0

    @property
    def invalid_answers(self) -> int:
        """The answers that did not fit the schema: each was repaired, or was the last one."""
        return self.repairs + isinstance(self, InvalidJson | InvalidAnswer)


class Refusal(ModelError):
    """The model declined to answer. The message is its reason."""

    code = "refusal"


class Length(ModelError):
    """The answer did not fit into the output limit (`finish_reason: length`)."""

    code = "length"


class ContentFilter(ModelError):
    """The provider's content filter refused the request or stopped the answer. words: the provider's own, if any."""

    code = "content_filter"

    def __init__(self, message: str, *, words: str = "") -> None:
        super().__init__(f"{message}: {words}" if words else message)
        self._public = message
        self.words = words

    @property
    def public_message(self) -> str:
        return self._public

    @property
    def provider_words(self) -> str:
        return self.words


class Truncated(ModelError):
    """The stream ended without a finish reason, in the middle of the answer."""

    code = "truncated"


class Empty(ModelError):
    """The model finished without an answer."""

    code = "empty"


class InvalidJson(ModelError):
    """The answer is not JSON, even after the repairs."""

    code = "invalid_json"


class Prose(InvalidJson):
    """The model answers with prose though it was asked for JSON, even after a repair. It would do so again."""


class InvalidAnswer(ModelError):
    """The answer does not validate against the schema, even after the repairs. errors: one sentence each."""

    code = "invalid_answer"

    def __init__(self, message: str, *, errors: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors)


class TransportError(ModelError):
    """The provider could not be reached or answered with an error.

    status: the HTTP status, None without an answer. retryable: whether the same call may work later. retry_after: how
    long the provider wants us to wait, in seconds. body: the provider's error object as text. kind: what failed. host:
    the one that could not be reached.
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
        kind: FailureKind = FailureKind.OTHER,
        host: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.host = host
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.body = body

    @property
    def provider_words(self) -> str:
        return self.message

    @property
    def public_message(self) -> str:
        """One sentence of our own for each kind, with what to do about it; never the provider's words."""
        sentence = _SENTENCES.get(self.kind)
        if self.kind is FailureKind.RATE and self.retry_after:
            sentence = f"its provider gets too many requests; try again in {max(1, round(self.retry_after))} s"
        if sentence is not None:
            return sentence if self.status is None else f"{sentence} (status {self.status})"
        if self.status is not None:
            return f"its provider answered with status {self.status}"
        if self.kind is FailureKind.UNREACHABLE and self.host:
            return (
                f"{self.host} cannot be reached, or broke off; try again, or correct the address with `codelab setup`"
            )
        return (
            "its provider could not be reached, or broke off"
            if self.retryable
            else "its provider gave no usable answer"
        )


class ContextOverflow(TransportError):
    """The provider refused the context, or ended the answer, because the model's window is smaller."""

    code = "context_overflow"

    @property
    def public_message(self) -> str:
        return "what it was sent does not fit into its context"


#: What users read about a failure, and what they can do.
_SENTENCES = {
    FailureKind.KEY: "its provider refused the API key; correct it with `codelab setup`, LLM_API_KEY or LlmApiKey",
    FailureKind.ACCESS: (
        "its provider does not let this account use the model; get access to it there, correct LlmFoundationModel, or "
        "choose another with LLM_MODEL or LlmModel"
    ),
    FailureKind.SIGN_IN: (
        "Microsoft Entra refused to sign the application in; correct LlmEntraTenant, LlmEntraClientId or its secret, "
        "LlmApiKey"
    ),
    FailureKind.MODEL: "its provider has no such model for this key; choose one with `codelab setup` or LLM_MODEL",
    FailureKind.QUOTA: "its provider says that no credit or quota is left; add some, or use another: `codelab setup`",
    FailureKind.RATE: "its provider gets too many requests; try again in a minute",
    FailureKind.COMPILING: "its provider is preparing the first use of a schema; try again in a minute",
    FailureKind.BUSY: "its provider is overloaded; try again in a minute",
    FailureKind.PROTOCOL: "its address is not that of its provider's API; correct it with `codelab setup`",
}


class DeadlineExceeded(ModelError):
    """The caller's deadline passed."""

    code = "deadline"


class Cancelled(ModelError):
    """The caller cancelled."""

    code = "cancelled"
