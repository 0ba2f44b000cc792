"""The Request: takes a context and a schema, returns a solution."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain
from typing import Any

from codelab.http.cancellation import Cancellation
from codelab.llm.call_schema import CALLS
from codelab.llm.client.partial_answer import PartialAnswer
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call, Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.completeness import finish_problem, shows_its_end
from codelab.llm.config import RequestConfig
from codelab.llm.content import BUILT_IN
from codelab.llm.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidAnswer,
    InvalidJson,
    ModelError,
    Prose,
    TransportError,
    Truncated,
)
from codelab.llm.form import Form
from codelab.llm.functions import Functions, InvalidCall, excluded_keywords_of
from codelab.llm.history import has_calls, in_answers_form, in_native_form
from codelab.llm.item_texts import NativeItems, item_delta, string_paths
from codelab.llm.modes import Mode, modes, past_reasoning, reads_calls, shows_schema
from codelab.llm.outcome import Done, Event, ItemDone, ItemsDropped, Result, TextDelta, ThinkingDelta, Usage
from codelab.llm.overflow import context_overflow
from codelab.llm.parsing import NoJson, is_whole, parse
from codelab.llm.pipeline import Registry, prepare
from codelab.llm.profiles import profile_of
from codelab.llm.repairs import repair_of_calls
from codelab.llm.scanner import Scanner, TextScanner, mend
from codelab.llm.schema.compiled import CompiledSchema, compile_schema
from codelab.llm.schema.validation import properties_of, repair_message
from codelab.llm.strategies import TOOL_NAME, Choice, arguments_in, build
from codelab.llm.text_calls import TextCalls
from codelab.llm.unsupported import unsupported_feature

#: The cache of all Requests of the process that do not get another one.
UNSUPPORTED = UnsupportedFeatures()
#: Refusals of the form of an answer after which the schema is only told to the model.
_REFUSALS = 2
#: The calls of an answer of which the model is told what is wrong.
_MOST_ERRORS = 8
#: Seconds that the usage and the end of the stream may take once the answer is complete.
_GRACE_S = 1.0


class Request:
    """One self-contained call of a model. It can be run several times, with any transports, but not concurrently.

    config: a RequestConfig. schema: the JSON Schema of the solution. context: the messages (see `content` for their
    types). registry: the content types, if not the built-in ones. unsupported: the cache of features that models do not
    support. remember: whether this Request adds to it; must be False if a caller of the program chose its settings or
    schema. retry: how failed calls are repeated. clock: measures deadlines, in seconds. admit: called with the config,
    the schema and the messages that the content handlers have made, before anything costly is done; it may raise.
    behind_results: a text for the end of the context, if it ends with results of calls. is_continued: the context of a
    later Request will begin with this one, so all of it is worth being cached.

    Raises InvalidRequest with the pointer of the invalid value, before anything is sent.
    """

    def __init__(
        self,
        config: RequestConfig,
        schema: Any,
        context: list[dict[str, Any]],
        *,
        registry: Registry = BUILT_IN,
        unsupported: UnsupportedFeatures = UNSUPPORTED,
        remember: bool = True,
        retry: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        admit: Callable[[RequestConfig, Any, list[dict[str, Any]]], None] | None = None,
        behind_results: str = "",
        is_continued: bool = False,
    ) -> None:
        config.check()
        self.config, self.schema, self.messages = prepare(config, schema, context, registry)
        #: The messages with past calls as the caller wrote them.
        self._history = self.messages
        #: Whether the context ends with results of calls: then the model may have nothing to add.
        self.follows_results = self.messages[-1].get("role") == "tool"
        self._is_continued = is_continued
        #: Whether a text stands behind these results in the form of the answer, which the next Request does not repeat.
        self._has_reminder = self.follows_results and behind_results != ""
        reads_native_calls = reads_calls(profile_of(config.provider, config.model), config)
        if has_calls(self.schema) and self.config.stream_fields and not reads_native_calls:
            self.messages = in_answers_form(self.messages, self.config.stream_fields[-1], behind_results)
        if admit is not None:
            admit(self.config, self.schema, self.messages)
        # The cache is for the program's own schemas: callers' schemas must neither fill it nor stay in memory.
        self._compiler = compile_schema if admit is None else CompiledSchema
        self._compiled = self._compiler(self.schema, self.config.open_objects)
        self._unsupported = unsupported
        self._remember = remember
        self._retry = retry or RetryPolicy()
        self._clock = clock

    def compile(self) -> None:
        """Make the strict schema now, so that the first run need not. Requests with the same schema share it."""
        unsupported = profile_of(self.config.provider, self.config.model).unsupported_keywords
        for mode in _modes(self.config, self._compiled, unsupported, streaming=True):
            if mode.strategy == "calls" and self._compiled.functions is not None:
                self._compiled.functions.definitions(mode, excluded_keywords_of(unsupported))
            return

    def is_repeated(self, mode: Mode) -> bool:
        """Whether a later Request repeats the messages as they are sent in this mode, to the last one."""
        return self._is_continued and (mode.strategy == "calls" or not self._has_reminder)

    def run(self, transport: Transport, *, deadline: float | None = None, cancel: Cancellation | None = None) -> Result:
        """Run without streaming and return the result.

        deadline: an absolute time of the Request's clock. cancel: a switch that stops the run, from any thread. Raises
        ModelError; after a cancel, Cancelled.
        """
        for event in self._events(transport, deadline, cancel, streaming=False):
            if isinstance(event, Done):
                return event.result
        raise AssertionError("a run ends with a result or an error")

    def stream(
        self,
        transport: Transport,
        *,
        deadline: float | None = None,
        cancel: Cancellation | None = None,
        on_wait: Callable[[], object] | None = None,
        shows_items: bool = False,
    ) -> Generator[Event, None, None]:
        """Yield ThinkingDelta, TextDelta and ItemDone while the model writes, then one Done.

        Takes and raises what `run` does; on_wait: see `Call`. shows_items: yield ItemDelta, too, and ItemsDropped.
        Closing the iterator closes the connection.
        """
        return self._events(transport, deadline, cancel, streaming=True, on_wait=on_wait, shows_items=shows_items)

    def _events(
        self,
        transport: Transport,
        deadline: float | None,
        cancel: Cancellation | None,
        *,
        streaming: bool,
        on_wait: Callable[[], object] | None = None,
        shows_items: bool = False,
    ) -> Generator[Event, None, None]:
        run = _Run(self, transport, Call(cancel, deadline, self._clock, on_wait), streaming, shows_items)
        try:
            yield from run.events()
        except ModelError as error:
            error.usage = run.usage + error.usage
            error.streamed = run.streamed()
            error.attempts = run.attempts
            error.repairs = run.repairs
            raise


def shown_form(config: RequestConfig, schema: Any, unsupported: frozenset[str]) -> Form | None:
    """The form that a streaming Request will add to its messages, as far as is known; None if it adds none.

    unsupported: the features that the model is known not to support.
    """
    compiled_schema, profile = compile_schema(schema, config.open_objects), profile_of(config.provider, config.model)
    unsupported |= profile.unsupported_keywords
    for mode in _modes(config, compiled_schema, unsupported, streaming=True):
        return None if shows_schema(profile, config, mode) else compiled_schema.form_for(mode, unsupported)
    return None


def _modes(
    config: RequestConfig, compiled_schema: CompiledSchema, unsupported: frozenset[str], *, streaming: bool
) -> Iterator[Mode]:
    """The ways to ask for an answer that fits the schema, best first."""
    return modes(
        profile_of(config.provider, config.model),
        config,
        streaming=streaming,
        strict=compiled_schema.codec(unsupported).strict,
        has_functions=lambda: compiled_schema.functions is not None,
        unsupported=unsupported,
    )


class _InvalidCalls(Exception):
    """Native calls that cannot be items of `calls`. errors: one sentence each, as of a validation."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class _Run:
    """The state of one run."""

    def __init__(self, request: Request, transport: Transport, call: Call, streaming: bool, shows_items: bool) -> None:
        self._request = request
        self._config = request.config
        self._compiled = request._compiled
        self._transport = transport
        self._call = call
        self._streaming = streaming
        self._shows_items = shows_items
        self._has_shown_items = False
        self._profile = profile_of(request.config.provider, request.config.model)
        self._past_reasoning = past_reasoning(self._profile, request.config)
        self._fields = [tuple(name.split(".")) for name in request.config.stream_fields]
        self._items = tuple(request.config.stream_items.split(".")) if request.config.stream_items else None
        self._shown_parts: dict[str, list[str]] = {}
        self._mode: Mode | None = None
        self._dropped_features: frozenset[str] = frozenset()
        self._open_field = ""
        self._refusals = 0
        self.usage = Usage()
        self.attempts = 0
        self.repairs = 0

    def streamed(self) -> dict[str, str]:
        return {name: "".join(parts) for name, parts in self._shown_parts.items()}

    def events(self) -> Iterator[Event]:
        choices = yield from self._call_model(self._compiled, [], self._config)
        answers = []
        for index, choice in enumerate(choices):
            answers.append((yield from self._solve(choice, is_visible=index == 0)))
        assert self._mode is not None
        solution, first_choice = answers[0]
        yield Done(
            Result(
                solution=solution,
                solutions=[solution for solution, _ in answers],
                has_text_call=first_choice.is_text_call,
                usage=self.usage,
                strategy=self._mode.strategy,
                attempts=self.attempts,
                finish_reason=first_choice.finish_reason,
                streamed=self.streamed(),
                repairs=self.repairs,
                reasoning=None if self._past_reasoning == "dropped" else first_choice.reasoning or None,
            )
        )

    def _solve(self, choice: Choice, *, is_visible: bool) -> Generator[Event, None, tuple[Any, Choice]]:
        """Turn a choice into a valid solution, with repairs; return it with the choice that gave it."""
        compiled_schema = self._compiled
        exchanges: list[dict[str, Any]] = []
        streamed_texts: dict[str, Any] = {}
        repairs = 0
        while True:
            cut = finish_problem(choice, may_be_empty=not repairs and self._may_be_empty(choice.mode))
            answer, problem = self._read(choice, compiled_schema)
            if choice.retracted and is_visible:
                streamed_texts = self._valid_texts([])  # text that was shown stays, even if it was a thought
            errors = problem.errors if isinstance(problem, _InvalidCalls) else [str(problem)]
            if problem is None:
                solution = self._complete(answer, streamed_texts)
                errors = self._compiled.explain(solution)
                if not errors and (cut is None or shows_its_end(choice)):
                    if is_visible and self._streaming and choice.mode.strategy == "calls":
                        yield from self._items_of(solution)
                    return solution, choice
            if cut is not None:
                raise cut
            if is_visible and self._open_field:
                raise Truncated("the answer breaks off in the middle of a text")
            if repairs >= (
                min(1, self._config.max_repairs) if isinstance(problem, NoJson) else self._config.max_repairs
            ):
                if problem is not None and not isinstance(problem, _InvalidCalls):
                    raise Prose(str(problem)) if isinstance(problem, NoJson) else InvalidJson(str(problem))
                raise InvalidAnswer("; ".join(errors), errors=errors)
            repairs += 1
            self.repairs += 1
            if is_visible:
                streamed_texts = self._valid_texts(errors)
            compiled_schema, exchange = self._repair(choice, errors, streamed_texts, len(exchanges))
            exchanges += exchange
            [choice] = yield from self._call_model(
                compiled_schema, exchanges, self._config.changed(n=1), is_visible=is_visible
            )

    def _repair(
        self, choice: Choice, errors: list[str], streamed_texts: dict[str, Any], number: int
    ) -> tuple[CompiledSchema, list[dict[str, Any]]]:
        """The schema of a repair, and the messages that tell what is wrong. number: of messages of earlier repairs."""
        if choice.mode.strategy == "calls" and self._compiled.functions is not None:
            # The functions stay the same: providers cache them, and what the text says twice is not shown.
            reasoning, functions = choice.reasoning.message, self._compiled.functions
            exchange = repair_of_calls(choice.text, choice.calls, errors, functions, number, reasoning)
            return self._compiled, exchange
        # A function call becomes text in the history: otherwise its result would have to follow it.
        answer_message = {"role": "assistant", "content": choice.text or "(nothing)"}
        return self._repair_schema(streamed_texts), [
            answer_message,
            {"role": "user", "content": repair_message(errors)},
        ]

    def _items_of(self, solution: Any) -> Iterator[Event]:
        """The calls of a complete answer. Before its end nobody knows whether it was cut, so they all come here."""
        if self._config.stream_items == CALLS:
            for index, item in enumerate(solution[CALLS]):
                yield ItemDone(index, item, self.attempts)

    def _read(self, choice: Choice, compiled_schema: CompiledSchema) -> tuple[Any, Exception | None]:
        """The decoded answer, or why it cannot be decoded."""
        if compiled_schema.functions is not None and (choice.mode.strategy == "calls" or choice.is_empty):
            return self._read_calls(choice, compiled_schema.functions)
        tool = choice.mode.strategy == "tool"
        if tool and choice.called and choice.tool_name not in (None, TOOL_NAME):
            return None, ValueError(f"there is no function {choice.tool_name!r}: call {TOOL_NAME}")
        try:
            value = parse(choice.text, prose=choice.mode.strategy == "json" or (tool and not choice.called))
            if tool and not choice.called and "arguments" not in properties_of(self._request.schema):
                value = arguments_in(value) if is_whole(choice.text) else value
            if tool and isinstance(value, str):  # some servers encode the arguments twice
                value = parse(value)
        except NoJson as error:
            return None, error
        except ValueError as error:
            return None, ValueError(f"the answer is not valid JSON: {error}")
        codec = compiled_schema.codec_for(choice.mode, self._unsupported())
        return (codec.decode(value) if codec is not None else value), None

    def _may_be_empty(self, mode: Mode) -> bool:
        """Whether an answer of nothing ends the model's turn. With `native` and `json`, the form is missing then."""
        return (
            mode.strategy in ("calls", "tool")
            and self._request.follows_results
            and self._compiled.functions is not None
        )

    def _read_calls(self, choice: Choice, functions: Functions) -> tuple[Any, Exception | None]:
        """As `_read`, for an answer with native calls."""
        excluded_keywords = excluded_keywords_of(self._unsupported())
        items, errors = list[dict[str, Any]](), list[str]()
        for index, call in enumerate(choice.calls):
            if len(errors) >= _MOST_ERRORS:
                break  # the others are told that they were not executed
            try:
                items.append(functions.item_of(call, choice.mode, excluded_keywords))
            except InvalidCall as error:
                errors.append(f"/{CALLS}/{index}: {error}")
        if errors:
            return None, _InvalidCalls(errors)
        answer = {functions.text_field: choice.text if choice.text.strip() else "", CALLS: items}
        return {name: answer[name] for name in properties_of(self._request.schema)}, None

    def _complete(self, answer: Any, streamed_texts: dict[str, Any]) -> Any:
        """The repaired answer with the streamed text put back, in the order of the schema."""
        if not streamed_texts or not isinstance(answer, dict):
            return answer
        solution = {**answer, **{name: text for name, text in streamed_texts.items() if "." not in name}}
        for name, text in streamed_texts.items():
            *parents, leaf = name.split(".")
            place: Any = solution
            for parent in parents:
                place = place.get(parent) if isinstance(place, dict) else None
            if parents and isinstance(place, dict) and leaf in place:
                place[leaf] = text
        order = [name for name in properties_of(self._request.schema) if name in solution]
        return {name: solution[name] for name in [*order, *(name for name in solution if name not in order)]}

    def _valid_texts(self, errors: list[str]) -> dict[str, Any]:
        """The streamed fields without errors."""
        return {
            name: text
            for name, text in self.streamed().items()
            if not any(line.startswith(f"/{name.replace('.', '/')}:") for line in errors)
        }

    def _repair_schema(self, streamed_texts: dict[str, Any]) -> CompiledSchema:
        """The schema of a repair, without the fields to keep if it is plain enough to leave them out."""
        properties = properties_of(self._request.schema)
        streamed_texts = {name: text for name, text in streamed_texts.items() if name in properties}
        if not streamed_texts or len(properties) == len(streamed_texts):
            return self._compiled
        schema = dict(self._request.schema)
        schema["properties"] = {name: value for name, value in properties.items() if name not in streamed_texts}
        schema["required"] = [name for name in schema.get("required", ()) if name not in streamed_texts]
        return self._request._compiler(schema, self._config.open_objects)

    # One call: how to ask, the call itself, its failures.

    def _unsupported(self) -> frozenset[str]:
        """The features not to use: those dropped in this run, those of the profile, and those known from other runs."""
        learned_features = self._request._unsupported.of(self._transport.base_url, self._config.model)
        return self._dropped_features | self._profile.unsupported_keywords | learned_features

    def _drop_feature(self, error: TransportError, mode: Mode, unsupported: frozenset[str]) -> bool:
        """Drop the feature that the error is about, or its whole strategy if that feature was dropped before.

        A third refusal leaves only JSON mode for this run: there are not enough calls for every step of the ladder.
        Returns False if the error is about no feature that can be dropped.
        """
        named_feature = unsupported_feature(error, mode)
        if named_feature is None:
            return False
        self._refusals += 1
        feature = mode.strategy if named_feature in unsupported else named_feature
        if feature in unsupported:
            return False
        self._dropped_features |= {feature}
        if self._refusals > _REFUSALS and mode.strategy != "json" and not named_feature.startswith("parameter:"):
            self._dropped_features |= {"native", "tool", "calls"}
        if self._request._remember:
            # The provider may be quoting a message, and its author must not decide how other Requests are made.
            quotable_messages = (
                message for message in self._request.messages if message.get("role") not in ("system", "developer")
            )
            if unsupported_feature(error, mode, quotable_messages) in (feature, *unsupported):
                self._request._unsupported.add(self._transport.base_url, self._config.model, feature)
        return True

    def _messages(self, mode: Mode, exchanges: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The context and the exchanges of repairs, with past calls as the mode has them."""
        request = self._request
        if mode.strategy == "calls" and self._compiled.functions is not None:
            names = self._compiled.functions.names
            return in_native_form([*request._history, *exchanges], names, self._profile, self._past_reasoning)
        if any("tool_calls" in message for message in exchanges) and self._compiled.functions is not None:
            # Native calls were refused after a repair had begun with them.
            exchanges = in_answers_form(exchanges, self._compiled.functions.text_field)
        return [*request.messages, *exchanges]

    def _call_model(
        self,
        compiled_schema: CompiledSchema,
        exchanges: list[dict[str, Any]],
        config: RequestConfig,
        *,
        is_visible: bool = True,
    ) -> Generator[Event, None, list[Choice]]:
        """Call the model, again after failures that allow it, and return the choices of its answer.

        exchanges: the messages of repairs.
        """
        failures = 0
        last_error: TransportError | None = None
        calls = 0
        while True:
            unsupported = self._unsupported()
            mode = self._choose(compiled_schema, unsupported, last_error)
            self._mode = mode
            codec = compiled_schema.codec_for(mode, unsupported)
            body = build(
                mode,
                self._profile,
                config,
                compiled_schema.schema if codec is None else codec.schema,
                self._messages(mode, exchanges),
                streaming=self._streaming,
                unsupported=unsupported,
                form=self._form(compiled_schema, mode, unsupported),
                functions=compiled_schema.functions if mode.strategy == "calls" else None,
                repeats_end=not exchanges and self._request.is_repeated(mode),
            )
            answer = PartialAnswer(config.n, mode, partial(self._text_calls, compiled_schema, body, mode))
            calls += 1
            if self._has_shown_items:
                self._has_shown_items = False
                yield ItemsDropped()
            try:
                self.attempts += 1
                yield from self._receive(body, answer, compiled_schema, is_visible=is_visible)
            except TransportError as error:
                self.usage += answer.usage
                overflow = context_overflow(error)
                if overflow is not None:
                    raise overflow from error
                if answer.has_text:
                    error.retryable = error.retryable or error.status is None
                    raise
                if calls < self._request._retry.attempts and self._drop_feature(error, mode, unsupported):
                    last_error = error.with_traceback(None)
                    continue
                failures += 1
                delay = self._request._retry.delay(error, max(failures, calls))
                if delay is None:
                    raise
                self._wait(delay, error)
                continue
            self.usage += answer.usage
            if not answer.has_text and all(choice.finish_reason is None for choice in answer.choices):
                # A stream that ends before the first token is a lost connection.
                failures += 1
                disconnect = TransportError("the stream ended before the first token", retryable=True)
                delay = self._request._retry.delay(disconnect, max(failures, calls))
                if delay is None:
                    raise Truncated("the stream ended before the first token")
                self._wait(delay, disconnect)
                continue
            return answer.choices

    def _choose(
        self, compiled_schema: CompiledSchema, unsupported: frozenset[str], last_error: TransportError | None
    ) -> Mode:
        for mode in _modes(self._config, compiled_schema, unsupported, streaming=self._streaming):
            return mode
        message = "the provider supports no strategy, without " + ", ".join(sorted(unsupported))
        if last_error is None:
            raise TransportError(message)
        raise TransportError(
            f"{message}; the last error: {last_error.message}", status=last_error.status, body=last_error.body
        )

    def _text_calls(self, compiled_schema: CompiledSchema, body: dict[str, Any], mode: Mode) -> TextCalls | None:
        """What finds a call in the text of an answer; None if the model is not known to write any."""
        if not self._config.text_calls or mode.strategy != "calls" or compiled_schema.functions is None:
            return None
        return TextCalls(compiled_schema.functions.names.values(), body)

    def _form(self, compiled_schema: CompiledSchema, mode: Mode, unsupported: frozenset[str]) -> Form | None:
        """The form of the answer, for a model that does not see the schema."""
        if shows_schema(self._profile, self._config, mode):
            return None
        return compiled_schema.form_for(mode, unsupported)

    def _wait(self, delay: float, error: TransportError) -> None:
        self._call.waits()
        seconds_left = self._call.remaining()
        if seconds_left is not None and delay >= seconds_left:
            raise DeadlineExceeded("the deadline passes before the next attempt") from error
        if self._call.cancellation.wait(delay):
            raise Cancelled("cancelled while waiting for the next attempt") from error

    def _receive(
        self, body: dict[str, Any], answer: PartialAnswer, compiled_schema: CompiledSchema, *, is_visible: bool
    ) -> Iterator[Event]:
        mode = answer.mode
        codec = compiled_schema.codec_for(mode, self._unsupported())
        scanner: Scanner | TextScanner | None = None
        native_items: NativeItems | None = None
        shown_items = self._items_path(codec) if self._shows_items else None
        names = dict[str, str]()
        if self._streaming and is_visible:
            if mode.strategy == "calls" and compiled_schema.functions is not None:
                text_field = compiled_schema.functions.text_field
                scanner = TextScanner(text_field, is_reported=(text_field,) in self._fields)
                native_items = NativeItems(compiled_schema.functions) if self._shows_items else None
            else:
                scanner, names = self._scanner(codec, mode)
        shown_parts = self._shown_parts
        shown_names = {name for name, parts in shown_parts.items() if parts}
        for chunks in chain(self._transport.send(body, self._call), (None,)):
            text = answer.finish() if chunks is None else answer.take(chunks)
            if answer.thoughts and is_visible:
                yield ThinkingDelta(mend("".join(answer.thoughts)), self.attempts)
                answer.thoughts.clear()
            for event in scanner.feed(text) if text and scanner is not None else ():
                if type(event) is TextDelta:
                    if shown_items is not None and (delta := item_delta(event, shown_items)) is not None:
                        self._has_shown_items = True
                        yield delta
                        continue
                    name = names.get(event.field, event.field)
                    if name in shown_names:
                        continue  # an earlier attempt has shown it
                    event.field = name
                    parts = shown_parts.get(name)
                    if parts is None:
                        parts = shown_parts[name] = []
                    parts.append(event.text)
                elif type(event) is ItemDone and codec is not None and self._items is not None:
                    event.value = codec.decode_item(self._items, event.value)
                yield event
            if native_items is not None:
                for delta in native_items.feed(answer.call_pieces):
                    self._has_shown_items = True
                    yield delta
            answer.call_pieces.clear()
            if answer.problem is not None:
                answer.check()
            if answer.is_finished:
                self._call.answered(_GRACE_S)
            elif self._call.is_answered:
                self._call.begin()  # it goes on
        if is_visible:
            self._open_field = scanner.open_field if scanner is not None else ""

    def _scanner(self, codec: Any, mode: Mode) -> tuple[Scanner, dict[str, str]]:
        """A scanner for the strict form, and the names of its fields in the original."""
        fields: list[tuple[str, ...]] = []
        names: dict[str, str] = {}
        for field in self._fields:
            path = field if codec is None else codec.strict_path(field)
            if path is not None:
                fields.append(path)
                names[".".join(path)] = ".".join(field)
        items = self._items_path(codec)
        if self._shows_items and items is not None:
            fields += string_paths(items)
        return Scanner(fields, items, prose=mode.strategy != "native", attempt=self.attempts), names

    def _items_path(self, codec: Any) -> tuple[str, ...] | None:
        """The array of items in the strict form; None if no items are streamed, or the form has no such array."""
        return self._items if self._items is None or codec is None else codec.strict_path(self._items)
