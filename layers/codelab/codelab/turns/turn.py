"""A turn: from the user's message to idle, or to the next queued message."""

import hashlib
from collections.abc import Mapping
from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ProtocolError
from codelab.protocol.modes import acting_mode, reading_mode
from codelab.protocol.outgoing import AssistantMessage, Error, LoggedMessage, Status, TurnEnd
from codelab.sessions import keys
from codelab.sessions.items import InputItem
from codelab.sessions.register import Phase, Register
from codelab.turns import attachments, kept_reasoning, policy, titles, usage
from codelab.turns.draft import Draft, Ending, Reason

#: A turn that has lasted longer (ms) than this counts as activity when it ends.
_LONG_MS = 3_600_000

#: The `turn_end` reason by the error's `reason`; all others end with `error`.
_ENDINGS: Mapping[str, Reason] = {"refusal": "refused", "content_filter": "refused", "budget": "budget"}


def begin(draft: Draft, message: InputItem) -> None:
    """Start the turn that answers `message`."""
    register = draft.register
    register.turn_id = draft.inputs.new_id()
    register.turn_seq = register.last_seq
    register.usage = {}
    register.steered_messages = []
    register.handovers = register.subagents = 0
    register.last_activity = draft.now
    kept_reasoning.remove(draft)
    if not register.title:
        register.title, register.title_is_draft = message.content[: titles.TITLE_CHARS], True
    give(draft, message)
    register.turn_n = register.history_n
    draft.dispatch_step(1)


def give(draft: Draft, message: InputItem) -> None:
    """Add the message to the history, and show it to everybody as a part of the running turn."""
    environment = environment_text(message.environment, draft.register)
    draft.append_message(
        "user", quoted(message), message_id=message.input_id, attachments=message.attachments, environment=environment
    )
    draft.emit(
        LoggedMessage(
            client_msg_id=message.input_id,
            turn_id=draft.register.turn_id,
            role=message.role,
            content=message.content,
            attachments=attachments.infos(message.attachments),
        )
    )


def environment_text(environment: str, register: Register) -> str:
    """The text after a message whose client reports its `environment`; empty without one.

    It says what waits for approval; while the agent only reads, its prompt tells that (`modes.PROMPTS`).
    """
    if not environment or reading_mode(register.settings):
        return environment
    return f"{environment}\napprovals: {policy.APPROVAL_NOTES[acting_mode(register.settings)]}"


def quoted(message: InputItem) -> str:
    """The content as the model sees it: with a role other than `user` it is quoted data, not an instruction."""
    if message.role == "user":
        return message.content
    return f'The user quotes a message of role "{message.role}":\n"""\n{message.content}\n"""'


def next_step(draft: Draft) -> None:
    """Begin the next step after all calls of the last answer are settled, or end the turn at `MAX_STEPS`."""
    step, is_child = draft.register.step + 1, draft.register.delegation is not None
    max_steps = draft.settings.max_steps
    if is_child:
        max_steps = min(max_steps, limits.CHILD_STEPS)
    if is_child and _tokens(draft.register) >= limits.CHILD_TOKENS:
        end(draft, "budget")
        return
    if step <= max_steps:
        _steer(draft)
        draft.dispatch_step(step)
        return
    text = f"Stopped: this turn reached its limit of {max_steps} steps."
    say(draft, text, draft.inputs.new_id())
    end(draft, "max_steps", text)


def _steer(draft: Draft) -> None:
    """Give the running turn the messages that are for its next step. Those of a turn that ends begin the next ones."""
    register = draft.register
    draft.need(keys.input_key(message_id) for message_id in register.steering)
    if register.steering:  # the user has said something new
        register.repeats = {}
    for message_id in register.steering:
        register.inbox.remove(message_id)
        if (message := _input(draft, message_id)) is not None:
            give(draft, message)
            register.steered_messages = [*register.steered_messages, message_id][-limits.INBOX :]
    register.steering = []


def _tokens(register: Register) -> int:
    """The tokens that the turn has used."""
    return register.usage.get("prompt_tokens", 0) + register.usage.get("completion_tokens", 0)


def say(draft: Draft, text: str, message_id: str) -> None:
    """Add a complete assistant message to the history, and send it."""
    draft.append_message("assistant", text, message_id=message_id)
    draft.emit(delta(draft, text, message_id, is_final=True))


def delta(draft: Draft, text: str, message_id: str, *, is_final: bool, aborted: bool | None = None) -> AssistantMessage:
    """A frame with a piece of an assistant message."""
    register = draft.register
    return AssistantMessage(
        token=text,
        content=text,
        is_final=is_final,
        message_id=message_id,
        turn_id=register.turn_id,
        agent=register.agent,
        aborted=aborted,
    )


def count(register: Register, amounts: Mapping[str, int]) -> None:
    """Add the usage of a Request to the turn's usage."""
    for name, value in amounts.items():
        if name == usage.CONTEXT:
            register.context_used = value
        else:
            register.usage[name] = register.usage.get(name, 0) + value


def count_lost(draft: Draft) -> None:
    """Count the Request of an attempt that has crashed: nobody knows what the provider counted, so it is estimated."""
    from codelab.turns import files, models  # seldom needed

    register = draft.register
    price = draft.settings.llm_prices.get(models.model_of(register, draft.settings))
    prompt = max(register.context_used, register.history_tokens + files.context_tokens(register))
    count(register, usage.estimated_usage(prompt, draft.streamed(), price))


def end_cancelled(draft: Draft, text: str, final_delta: str = "") -> None:
    """End the turn of a cancelled step: the streamed text stays, and its calls are never made.

    `final_delta` is the end of the text, not logged yet.
    """
    if text:
        draft.append_message("assistant", text, message_id=draft.register.message_id)
        draft.emit(delta(draft, final_delta, draft.register.message_id, is_final=True))
    end(draft, "cancelled", text)


def fail(draft: Draft, error: ProtocolError) -> None:
    """End the turn with an error. The session stays usable, and the user's message stays in the history."""
    draft.emit(Error.of(error))
    draft.set_status(Status.ERROR, error.message)
    end(draft, _ENDINGS.get(error.details.get("reason", ""), "error"), error=error)


def end(
    draft: Draft,
    reason: Reason,
    text: str = "",
    error: ProtocolError | None = None,
    result: dict[str, Any] | None = None,
) -> None:
    """End the turn, and begin one for the next queued message. `text` is the turn's last message, if any.

    A child ends with its turn, with the `result` that it was asked for: the caller calls `calls.end_child`.
    """
    register = draft.register
    if register.delegation is not None:
        draft.ending = Ending(reason, text, error, result)
        return
    draft.emit(
        TurnEnd(
            turn_id=register.turn_id,
            reason=reason,
            usage=usage.turn_usage(register.usage),
            final_text_sha256=hashlib.sha256(text.encode()).hexdigest() if text else None,
            title=register.title,
            context_used=register.context_used or None,
        )
    )
    register.phase = Phase.IDLE
    register.release()
    register.step = register.attempt = register.dispatched_at = register.invoked_again_at = 0
    register.announced_seq = register.message_seq = 0
    register.message_id = ""
    register.calls = {}
    register.failures, register.repeats = {}, {}
    register.steering = []
    kept_reasoning.remove(draft)
    # Messages and decisions within the turn have not changed it, because they would also change the index of sessions.
    if draft.now - register.last_activity > _LONG_MS:
        register.last_activity = draft.now
    while register.inbox:
        message = _input(draft, register.inbox[0])
        register.inbox.pop(0)
        if message is not None:
            begin(draft, message)
            return
    draft.set_status(Status.IDLE, "Ready", is_news=True)  # even if the turn ended before any other status


def _input(draft: Draft, input_id: str) -> InputItem | None:
    """A queued message: one that this draft accepts, or one that was stored before."""
    for item in draft.puts:
        if isinstance(item, InputItem) and item.input_id == input_id:
            return item
    raw_item = draft.item(keys.input_key(input_id))
    return InputItem.of(raw_item) if raw_item else None
