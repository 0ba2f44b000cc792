"""The Request: a context and a schema in, a solution out."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import Any

from codelab.llm.client.downgrade import Memory, blamed, learnt
from codelab.llm.client.transport import Call, Cancellation, Transport
from codelab.llm.config import RequestConfig
from codelab.llm.content import BUILT_IN
from codelab.llm.errors import (
    CallError,
    Cancelled,
    ContentFilter,
    DeadlineExceeded,
    Empty,
    InvalidAnswer,
    InvalidJson,
    Length,
    Refusal,
    TransportError,
    Truncated,
)
from codelab.llm.outcome import Done, Event, ItemDone, Result, TextDelta, ThinkingDelta, Usage
from codelab.llm.parsing import parse
from codelab.llm.pipeline import Registry, prepare
from codelab.llm.profiles import PROFILES, Mode, modes
from codelab.llm.retry import RetryPolicy
from codelab.llm.scanner import Scanner
from codelab.llm.schema.plan import Plan, plan_for
from codelab.llm.schema.validation import properties_of, repair_message
from codelab.llm.strategies import TOOL_NAME, Choice, build

# Shared by all requests of the process: what a model refused once is not asked of it again.
MEMORY = Memory()


class Request:
    """One self-contained call of a model.

    config: a RequestConfig. schema: the JSON Schema of the solution. context: the messages (see `pipeline` for the
    types of content). Everything is validated here; InvalidRequest names the wrong place by its JSON Pointer, and
    nothing has been sent. A Request can be run several times, also with several transports, but one run at a time.

    registry: content types other than the built-in ones. memory: where refusals are remembered. learns: whether those
    of this Request may be; not where others than the program chose its settings or schema. retry: how failed calls are
    repeated. clock: what deadlines are measured with. admit: called with what the content handlers have made of it all,
    before anything costly is done; what it raises is raised.
    """

    def __init__(
        self,
        config: RequestConfig,
        schema: Any,
        context: list[dict[str, Any]],
        *,
        registry: Registry = BUILT_IN,
        memory: Memory = MEMORY,
        learns: bool = True,
        retry: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        admit: Callable[[RequestConfig, Any, list[dict[str, Any]]], None] | None = None,
    ) -> None:
        config.check()
        self.config, self.schema, self.messages = prepare(config, schema, context, registry)
        if admit is not None:
            admit(self.config, self.schema, self.messages)
        # Schemas of others do not push those of the program out of the cache, nor stay in memory.
        self._plan_for = plan_for if admit is None else Plan
        self._plan = self._plan_for(self.schema, self.config.open_objects)
        self._memory = memory
        self._learns = learns
        self._retry = retry or RetryPolicy()
        self._clock = clock
        self._cancellation = Cancellation()

    def compile(self) -> None:
        """Make what the first run would make of the schema; requests with the same schema share it."""
        self._plan.codec(PROFILES[self.config.provider].lacks)

    def cancel(self) -> None:
        """Stop. May be called from any thread: a blocked read ends at once and the run raises Cancelled."""
        self._cancellation.cancel()

    def run(self, transport: Transport, *, deadline: float | None = None, cancel: Cancellation | None = None) -> Result:
        """The result, without streaming. Raises a CallError."""
        for event in self._events(transport, deadline, cancel, streaming=False):
            if isinstance(event, Done):
                return event.result
        raise AssertionError("a run ends with a result or an error")

    def stream(
        self, transport: Transport, *, deadline: float | None = None, cancel: Cancellation | None = None
    ) -> Iterator[Event]:
        """ThinkingDelta, TextDelta and ItemDone while the model writes, then exactly one Done. Raises a CallError.

        deadline is an absolute time of the request's clock (`time.monotonic`). Closing the iterator closes the
        connection.
        """
        return self._events(transport, deadline, cancel, streaming=True)

    def _events(
        self, transport: Transport, deadline: float | None, cancel: Cancellation | None, *, streaming: bool
    ) -> Iterator[Event]:
        if cancel is not None:
            self._cancellation = cancel
        run = _Run(self, transport, Call(self._cancellation, deadline, self._clock), streaming)
        try:
            yield from run.events()
        except CallError as error:
            error.usage = run.usage + error.usage
            error.streamed = run.streamed()
            error.attempts = run.attempts
            raise


class _Run:
    """The state of one run: what was asked, what was paid, what was shown."""

    def __init__(self, request: Request, transport: Transport, call: Call, streaming: bool) -> None:
        self._request = request
        self._config = request.config
        self._plan: Plan = request._plan
        self._transport = transport
        self._call = call
        self._streaming = streaming
        self._profile = PROFILES[request.config.provider]
        self._fields = [tuple(name.split(".")) for name in request.config.stream_fields]
        self._items = tuple(request.config.stream_items.split(".")) if request.config.stream_items else None
        self._shown: dict[str, list[str]] = {}
        self._mode: Mode | None = None
        self._given_up: frozenset[str] = frozenset()
        self.usage = Usage()
        self.attempts = 0

    def streamed(self) -> dict[str, str]:
        return {name: "".join(parts) for name, parts in self._shown.items()}

    def events(self) -> Iterator[Event]:
        choices = yield from self._ask(self._plan, self._request.messages, self._config, first=True)
        solutions: list[Any] = []
        finish_reason: str | None = None
        for index, choice in enumerate(choices):
            solution, finish = yield from self._settle(choice, visible=index == 0)
            solutions.append(solution)
            if index == 0:
                finish_reason = finish
        assert self._mode is not None
        yield Done(
            Result(
                solution=solutions[0],
                solutions=solutions,
                usage=self.usage,
                strategy=self._mode.strategy,
                attempts=self.attempts,
                finish_reason=finish_reason,
                streamed=self.streamed(),
            )
        )

    # One choice: from what the model said to a valid solution, with repairs.

    def _settle(self, choice: Choice, *, visible: bool) -> Generator[Event, None, tuple[Any, str | None]]:
        plan, messages = self._plan, self._request.messages
        kept: dict[str, Any] = {}
        repairs = 0
        while True:
            self._finished(choice)
            answer, problem = self._read(choice, plan)
            if choice.retracted and visible:
                kept = self._keepable([])  # what was shown stands, also if it was a thought
            if problem is None:
                solution = self._complete(answer, kept)
                errors = self._plan.explain(solution)
                if not errors:
                    return solution, choice.finish_reason
            else:
                errors = [problem]
            if repairs >= self._config.max_repairs:
                if problem is not None:
                    raise InvalidJson(problem)
                raise InvalidAnswer("; ".join(errors), errors=errors)
            repairs += 1
            if visible:
                kept = self._keepable(errors)
            plan = self._reduced(kept)
            messages = [*messages, *self._said(choice), {"role": "user", "content": repair_message(errors)}]
            config = self._config.changed(n=1)
            [choice] = yield from self._ask(plan, messages, config, first=False, visible=visible)

    def _read(self, choice: Choice, plan: Plan) -> tuple[Any, str | None]:
        """The decoded answer, or what is wrong with it as JSON."""
        assert self._mode is not None
        tool = self._mode.strategy == "tool"
        if tool and choice.called and choice.tool_name not in (None, TOOL_NAME):
            return None, f"there is no function {choice.tool_name!r}: call {TOOL_NAME}"
        try:
            value = parse(choice.text, prose=self._mode.strategy == "json" or (tool and not choice.called))
            if tool and isinstance(value, str):  # some servers encode the arguments twice
                value = parse(value)
        except ValueError as error:
            return None, f"the answer is not valid JSON: {error}"
        codec = plan.coded(self._mode, self._refused())
        return (codec.decode(value) if codec is not None else value), None

    def _complete(self, answer: Any, kept: dict[str, Any]) -> Any:
        """Put the text that was streamed back into a repaired answer, in the order of the schema."""
        if not kept or not isinstance(answer, dict):
            return answer
        merged = {**answer, **{name: text for name, text in kept.items() if "." not in name}}
        for name, text in kept.items():
            *parents, last = name.split(".")
            place: Any = merged
            for parent in parents:
                place = place.get(parent) if isinstance(place, dict) else None
            if parents and isinstance(place, dict) and last in place:
                place[last] = text
        order = [name for name in properties_of(self._request.schema) if name in merged]
        return {name: merged[name] for name in [*order, *(name for name in merged if name not in order)]}

    def _keepable(self, errors: list[str]) -> dict[str, Any]:
        """The streamed fields that were not themselves at fault."""
        return {
            name: text
            for name, text in self.streamed().items()
            if not any(line.startswith(f"/{name.replace('.', '/')}:") for line in errors)
        }

    def _reduced(self, kept: dict[str, Any]) -> Plan:
        """The plan of a repair: what was streamed already is not asked for again, where the schema is plain enough."""
        properties = properties_of(self._request.schema)
        kept = {name: text for name, text in kept.items() if name in properties}
        if not kept or len(properties) == len(kept):
            return self._plan
        schema = dict(self._request.schema)
        schema["properties"] = {name: value for name, value in properties.items() if name not in kept}
        schema["required"] = [name for name in schema.get("required", ()) if name not in kept]
        return self._request._plan_for(schema, self._config.open_objects)

    def _said(self, choice: Choice) -> list[dict[str, Any]]:
        """The invalid answer as history. A call becomes text: its result would have to follow it otherwise."""
        assert self._mode is not None
        return [{"role": "assistant", "content": choice.text or "(nothing)"}]

    def _finished(self, choice: Choice) -> None:
        """Raise what the finish reason means, unless the answer is one."""
        assert self._mode is not None
        reason = choice.finish_reason
        if choice.refusal:
            raise Refusal(choice.refusal)
        if reason in ("length", "model_length", "max_tokens"):
            raise Length("the answer did not fit into the output limit")
        if reason in ("content_filter", "safety", "SAFETY", "guardrail_intervened"):
            raise ContentFilter("the provider's content filter stopped the answer")
        if reason == "refusal":
            raise Refusal(choice.text or "the model refused")
        if reason == "error":
            raise TransportError("the provider reports an error at the end of its answer", retryable=True)
        if reason is None:
            raise Truncated("the answer ended without a finish reason")
        if not choice.text.strip():
            raise Empty("the model finished without an answer")

    # One question: the way to ask, the call, its failures.

    def _refused(self) -> frozenset[str]:
        """The features that are not asked for: refused in this run, or known from others."""
        known = self._profile.lacks | self._request._memory.refused(self._transport.base_url, self._config.model)
        return self._given_up | known

    def _give_up(self, error: TransportError, mode: Mode, refused: frozenset[str]) -> bool:
        """Do without what a refusal blames, and without its whole strategy if that was given up already. False if it
        blames nothing that can be done without."""
        feature = blamed(error, mode)
        if feature in refused:
            feature = mode.strategy
        if feature is None or feature in refused:
            return False
        self._given_up |= {feature}
        if self._request._learns and learnt(error, mode, self._words()) in (feature, *refused):
            self._request._memory.refuse(self._transport.base_url, self._config.model, feature)
        return True

    def _words(self) -> Iterator[Any]:
        """What others than the program wrote."""
        return (message for message in self._request.messages if message.get("role") not in ("system", "developer"))

    def _ask(
        self,
        plan: Plan,
        messages: list[dict[str, Any]],
        config: RequestConfig,
        *,
        first: bool,
        visible: bool = True,
    ) -> Generator[Event, None, list[Choice]]:
        """Make the call, however often it takes; give its choices."""
        failures = 0
        refusal: TransportError | None = None
        while True:
            refused = self._refused()
            mode = self._choose(plan, refused, refusal)
            self._mode = mode
            codec = plan.coded(mode, refused)
            body = build(
                mode,
                self._profile,
                config,
                plan.schema if codec is None else codec.schema,
                messages,
                streaming=self._streaming,
                refused=refused,
            )
            received = _Received(config.n, mode)
            try:
                self.attempts += 1
                yield from self._receive(body, received, plan, visible=visible)
            except TransportError as error:
                self.usage += received.usage
                if received.begun:
                    error.retryable = error.retryable or error.status is None
                    raise
                if self._give_up(error, mode, refused):
                    refusal = error
                    continue
                failures += 1
                delay = self._request._retry.delay(error, failures)
                if delay is None:
                    raise
                self._wait(delay, error)
                continue
            self.usage += received.usage
            if not received.begun and all(choice.finish_reason is None for choice in received.choices):
                # A stream that ended before it began is a lost connection.
                failures += 1
                lost = TransportError("the stream ended before the first token", retryable=True)
                delay = self._request._retry.delay(lost, failures)
                if delay is None:
                    raise Truncated("the stream ended before the first token")
                self._wait(delay, lost)
                continue
            return received.choices

    def _choose(self, plan: Plan, refused: frozenset[str], refusal: TransportError | None) -> Mode:
        strict = plan.codec(refused).strict
        for mode in modes(self._profile, self._config, streaming=self._streaming, strict=strict, refused=refused):
            return mode
        every = "the provider has refused every strategy: " + ", ".join(sorted(refused))
        if refusal is None:
            raise TransportError(every)
        raise TransportError(f"{every}; at last: {refusal.message}", status=refusal.status, body=refusal.body)

    def _wait(self, delay: float, error: TransportError) -> None:
        remaining = self._call.remaining()
        if remaining is not None and delay >= remaining:
            raise DeadlineExceeded("the deadline passes before the next attempt") from error
        if self._call.cancellation.wait(delay):
            raise Cancelled("cancelled while waiting for the next attempt") from error

    def _receive(self, body: dict[str, Any], received: _Received, plan: Plan, *, visible: bool) -> Iterator[Event]:
        mode = received.mode
        codec = plan.coded(mode, self._refused())
        scanner, names = None, dict[str, str]()
        if self._streaming and visible:
            scanner, names = self._scanner(codec, mode)
        shown = self._shown
        already = {name for name, parts in shown.items() if parts}
        for chunks in chain(self._transport.send(body, self._call), (None,)):
            text = received.finish() if chunks is None else received.take(chunks)
            if received.thoughts and visible:
                yield ThinkingDelta("".join(received.thoughts), self.attempts)
                received.thoughts.clear()
            if not text or scanner is None:
                continue
            for event in scanner.feed(text):
                if type(event) is TextDelta:
                    name = names.get(event.field, event.field)
                    if name in already:
                        continue  # shown by an earlier attempt
                    event.field = name
                    parts = shown.get(name)
                    if parts is None:
                        parts = shown[name] = []
                    parts.append(event.text)
                elif type(event) is ItemDone and codec is not None and self._items is not None:
                    event.value = codec.decode_item(self._items, event.value)
                yield event

    def _scanner(self, codec: Any, mode: Mode) -> tuple[Scanner, dict[str, str]]:
        """A scanner for the form that is sent, and the caller's names of its fields."""
        fields: list[tuple[str, ...]] = []
        names: dict[str, str] = {}
        for field in self._fields:
            path = field if codec is None else codec.strict_path(field)
            if path is not None:
                fields.append(path)
                names[".".join(path)] = ".".join(field)
        items = self._items
        if items is not None and codec is not None:
            items = codec.strict_path(items)
        return Scanner(fields, items, prose=mode.strategy != "native", attempt=self.attempts), names


class _Received:
    """What one call has brought so far."""

    __slots__ = ("begun", "choices", "mode", "thoughts", "usage")

    def __init__(self, n: int, mode: Mode) -> None:
        self.mode = mode
        self.choices = [Choice(mode.strategy) for _ in range(n)]
        self.usage = Usage()
        self.begun = False
        #: The first choice's thoughts, in pieces.
        self.thoughts = self.choices[0].thoughts

    def take(self, chunks: list[dict[str, Any]]) -> str:
        """Take chunks; give the new text of the first choice."""
        text = ""
        for chunk in chunks:
            for choice in chunk.get("choices") or ():
                index = choice.get("index") or 0
                while index >= len(self.choices):
                    self.choices.append(Choice(self.mode.strategy))
                if choice.get("error"):
                    raise TransportError(f"the provider broke off: {choice['error']}", retryable=True)
                new = self.choices[index].take(choice)
                if new:
                    self.begun = True
                    if index == 0:
                        text = text + new if text else new
            usage = chunk.get("usage")
            if usage:
                # Some providers repeat a growing usage in every chunk: the last one counts.
                self.usage = Usage.parse(usage)
        return text

    def finish(self) -> str:
        """There are no more chunks; give the rest of the first choice's text."""
        for choice in self.choices[1:]:
            choice.finish()
        return self.choices[0].finish()
