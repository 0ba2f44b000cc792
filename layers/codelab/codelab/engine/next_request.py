"""The Request that a session's next step would make, to look at: made as the step makes it, and sent nowhere."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from codelab.engine.step_requests import PreparedRequest
from codelab.llm.client.request import shown_form
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.sessions.items import MessageItem
from codelab.sessions.register import Phase
from codelab.sessions.store import Conversation
from codelab.turns.turn import environment_text


class _Sent(Exception):
    """The Request would send this body."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__()
        self.body = body


class _Recorder:
    """A transport that sends nothing."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        raise _Sent(body)


def with_message(conversation: Conversation, content: str, environment: str, now: int) -> Conversation:
    """The conversation with this message of the user behind it, if no turn runs; otherwise unchanged.

    environment: what the message's client tells of it, as text.
    """
    register = conversation.register
    assert register is not None
    if register.phase is not Phase.IDLE:
        return conversation
    n = register.history_n + 1
    register.title_is_draft = register.title_is_draft or not register.title
    message = MessageItem(n, "user", content, now, "", environment=environment_text(environment, register))
    return replace(conversation, history=[*conversation.history, message], turn_n=n)


def look(prepared_request: PreparedRequest, unsupported: UnsupportedFeatures, base_url: str) -> dict[str, Any]:
    """The body of the Request, and the estimated tokens of its parts. `form`: the answer's form that its messages show.

    Raises InvalidRequest as the step would.
    """
    request, config = prepared_request.request, prepared_request.config
    form = shown_form(config, request.schema, unsupported.of(base_url, config.model))
    tokens = {**prepared_request.wait_for_parts(), "form": 0 if form is None else form.tokens}
    if form is not None:
        tokens["tools"] = 0  # they are in the form, and sent nowhere else
    try:
        next(request.stream(_Recorder(base_url)))
    except _Sent as sent:
        return {"agent": prepared_request.agent.name, "model": config.model, "tokens": tokens, "request": sent.body}
    raise AssertionError("a Request has no answer before it is sent")
