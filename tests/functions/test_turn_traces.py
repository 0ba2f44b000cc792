"""The traces of turns, as a collector gets them: one tree over all functions, and what a collector can do to a turn."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codelab import otlp, turn_log, turn_spans
from codelab.turn_spans import Kind, Span, TurnSpans, is_sampled

from tests.fakes.http import Exchange
from tests.fakes.model.script import call
from tests.fakes.otlp import Collector, Received
from tests.functions.system import Context, System
from tests.functions.test_metrics import broken, counted, own, refuse
from tests.functions.test_sweep import die
from tests.sampling import sampled
from tests.waiting import until

SECRET = "a-secret-word"
READ = call("read_file", path=f"{SECRET}.py")
WRITE = call("write_file", path=f"{SECRET}.py", content=SECRET)

ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture
def traced(system: System, collector: Collector) -> System:
    """A connected session whose turns are traced."""
    system.environment = {ENDPOINT: collector.endpoint, "METRICS": "true"}
    system.connect("c1")
    return system


def tree(spans: list[Received]) -> dict[str, Any]:
    """The names of the spans below each other, in the order of their starts. All parents are there."""
    assert {span.parent for span in spans} <= {span.id for span in spans} | {""}

    def below(parent: str) -> dict[str, Any]:
        children = sorted((span for span in spans if span.parent == parent), key=lambda span: (span.start, span.name))
        return {span.name: below(span.id) for span in children}

    return below("")


def named(spans: list[Received], name: str) -> Received:
    (span,) = [span for span in spans if span.name == name]
    return span


def in_one_process(system: System) -> None:
    """Load the functions of a turn now: what one of them keeps is the others', until another is loaded."""
    for folder in ("user_message", "llm_request", "hitl_decision", "tool_result"):
        system.function(folder)


def an_approved_turn(system: System) -> None:
    """A message, two calls of which a human approves one, their results, the answer."""
    written, read = system.ask("c1", f"Let me see {SECRET}", WRITE, READ)
    system.send("c1", "hitl_decision", call_id=written, decision="approve")
    system.send("c1", "tool_result", call_id=written, result={"success": True})
    system.send("c1", "tool_result", call_id=read, result={"content": SECRET})
    system.model.says(f"It is {SECRET}")
    system.run_step()


def test_a_turn_with_an_approval_is_one_trace_over_all_functions(traced: System, collector: Collector) -> None:
    an_approved_turn(traced)
    spans = collector.spans
    assert len({span.trace for span in spans}) == 1
    model = "chat openai.gpt-oss-120b-1:0"
    assert tree(spans) == {
        "invoke_agent universal": {
            "user_message": {},
            "step 1": {
                model: {},
                "execute_tool read_file": {"tool_result": {}},
                "execute_tool write_file": {"approval": {}, "hitl_decision": {}, "tool_result": {}},
            },
            "step 2": {model: {}},
        }
    }
    root = named(spans, "invoke_agent universal")
    assert root.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "universal",
        "gen_ai.conversation.id": "SESSION#ann#s1",
        "gen_ai.usage.input_tokens": 200,
        "gen_ai.usage.output_tokens": 20,
        "codelab.turn.id": traced.item("REGISTER")["turn_id"],
        "codelab.turn.steps": 2,
        "codelab.turn.end": "completed",
    }
    assert all(root.start // 10**9 <= span.start // 10**9 and span.end <= root.end + 10**9 for span in spans)
    assert not any(span.is_error for span in spans)
    assert {span.kind for span in spans if span.name == model} == {Kind.CLIENT}


def test_the_traces_id_has_the_form_of_x_ray(traced: System, collector: Collector) -> None:
    """Its first eight digits are the time in seconds."""
    traced.ask("c1", "Hello")
    (trace,) = {span.trace for span in collector.spans}
    assert abs(int(trace[:8], 16) - time.time()) < 600
    traced.ask("c1", "Hello again")
    assert len({span.trace for span in collector.spans}) == 2


def test_nothing_that_was_said_is_in_a_span(traced: System, collector: Collector) -> None:
    an_approved_turn(traced)
    assert collector.spans
    assert SECRET not in collector.text


def test_a_model_call_has_the_attributes_of_the_conventions(traced: System, collector: Collector) -> None:
    traced.ask("c1", "Hello")
    assert named(collector.spans, "chat openai.gpt-oss-120b-1:0").attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": "openai.gpt-oss-120b-1:0",
        "gen_ai.output.type": "json",
        "gen_ai.conversation.id": "SESSION#ann#s1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }


def test_a_failing_model_is_an_error_of_its_span_and_of_the_turns(traced: System, collector: Collector) -> None:
    traced.model.answers.append(broken(refuse))
    traced.say("c1")
    spans = collector.spans
    assert {span.name: span.attributes["error.type"] for span in spans if span.is_error} == {
        "chat openai.gpt-oss-120b-1:0": "transport",
        "invoke_agent universal": "LLM_ERROR",
    }
    assert "no such model" not in collector.text


def test_a_call_that_is_refused_at_once_and_one_that_fails_are_errors(traced: System, collector: Collector) -> None:
    traced.ask("c1", "Let me see", READ, call("read_file", path="../../outside"))
    (read,) = [name for name, entry in traced.item("REGISTER")["calls"].items() if entry["state"] == "executing"]
    traced.send("c1", "tool_result", call_id=read, error={"code": f"{SECRET}!", "message": SECRET})
    calls = [span for span in collector.spans if span.name == "execute_tool read_file"]
    assert sorted(span.attributes["error.type"] for span in calls) == ["EXECUTION_FAILED", "PATH_OUTSIDE_WORKSPACE"]
    assert SECRET not in collector.text


def test_a_step_whose_process_died_is_an_error_and_the_next_attempt_a_step_of_the_same_trace(
    traced: System, collector: Collector
) -> None:
    traced.send("c1", "user_message", content="hello")
    traced.model.answers.append(broken(die))
    _, step = traced.aws.last_invoke
    with pytest.raises(BaseException, match=r"\A\Z"):
        traced.run_step()
    traced.report_failure(step)
    traced.model.says("Hello")
    traced.run_step()
    spans = collector.spans
    attempts = [span.attributes for span in spans if span.name == "step 1"]
    assert [(it["codelab.attempt"], it.get("error.type")) for it in attempts] == [(1, "interrupted"), (2, None)]
    assert len({span.trace for span in spans}) == 1


def test_a_client_that_comes_back_and_finds_a_dead_step_sends_its_span(traced: System, collector: Collector) -> None:
    """`$connect` repairs it. The span is its only one, so that no later event of the same process sends it."""
    traced.send("c1", "user_message", content="hello")
    traced.model.answers.append(broken(die))
    with pytest.raises(BaseException, match=r"\A\Z"):
        traced.run_step()
    traced.function("connect").clock_ms = 130_000
    traced.connect("c2")
    assert [span.attributes.get("error.type") for span in collector.spans if span.name == "step 1"] == ["interrupted"]


def test_a_call_whose_step_was_never_sent_names_a_parent_that_is_missing(
    traced: System, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process had died after its commit: the trace lacks its spans, and nothing else is lost."""
    with monkeypatch.context() as dying:
        dying.setattr(turn_log, "end", lambda _: None)
        (read,) = traced.ask("c1", "Let me see", READ)
    unsent = turn_log.spans()
    assert unsent is not None
    assert unsent.take()[0]
    traced.send("c1", "tool_result", call_id=read, result={"content": "x"})
    (span,) = [span for span in collector.spans if span.name == "execute_tool read_file"]
    assert span.parent not in {it.id for it in collector.spans}


def test_a_step_that_is_invoked_twice_is_one_step(traced: System, collector: Collector) -> None:
    traced.send("c1", "user_message", content="hello")
    traced.model.says("Hello")
    _, step = traced.aws.last_invoke
    traced.run_step()
    traced.function("llm_request")(step)
    assert tree(collector.spans) == {
        "invoke_agent universal": {"user_message": {}, "step 1": {"chat openai.gpt-oss-120b-1:0": {}}}
    }


def test_an_approval_that_nobody_gives_and_a_cancelled_turn_are_told(traced: System, collector: Collector) -> None:
    traced.ask("c1", "Let me write", WRITE)
    traced.sweep(later_s=86_401)
    assert named(collector.spans, "approval").attributes == {"codelab.decision": "expired"}
    assert named(collector.spans, "execute_tool write_file").attributes["codelab.call.state"] == "expired"
    traced.function("control")(traced.event("c1", {"type": "cancel"}))
    root = named(collector.spans, "invoke_agent universal")
    assert (root.attributes["codelab.turn.end"], root.is_error) == ("cancelled", False)
    assert "cancel" in {span.name for span in collector.spans if span.parent == root.id}


def test_a_request_without_a_session_is_a_trace_of_its_own(traced: System, collector: Collector) -> None:
    traced.model.answers.append(json.dumps({"n": 1}))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    context = [{"role": "user", "content": SECRET}]
    traced.function("llm_request")({"kind": "request", "context": context, "schema": schema})
    (span,) = collector.spans
    assert (span.name, span.parent) == ("chat openai.gpt-oss-120b-1:0", "")


def test_a_turn_over_http_is_a_trace_too(traced: System, collector: Collector) -> None:
    traced.http("POST", "/chat/message", body={"session_id": "s1", "message": "hello"})
    traced.model.says("Hello")
    traced.run_step()
    assert list(tree(collector.spans)["invoke_agent universal"]) == ["user_message", "step 1"]


# -- a collector that misbehaves ---------------------------------------------------------------------------------------


def hang(exchange: Exchange) -> None:
    exchange.closed_by_client()


def trickle(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not exchange.closed_by_client(0.05):
        exchange.send(b" ")


HOSTILE: dict[str, tuple[Callable[[Exchange], None], str]] = {
    "hangs": (hang, "TimeoutError"),
    "trickles": (trickle, "TimeoutError"),
    "fails": (lambda exchange: exchange.json({"message": SECRET}, 500), "status 500"),
    "redirects": (lambda exchange: exchange.answer(307, b"", {"Location": "http://127.0.0.1:9/"}), "status 307"),
    "speaks no HTTP": (lambda exchange: exchange.send(b"220 mail.example\r\n"), "BadStatusLine"),
    "sends too much": (lambda exchange: exchange.answer(200, b"x" * 1_000_000), "HTTPException"),
    "rejects some": (lambda exchange: exchange.json({"partialSuccess": {"rejectedSpans": "1"}}), "rejected"),
    "lies about it": (lambda exchange: exchange.json({"partialSuccess": {"rejectedSpans": 999999}}), "rejected"),
}


@pytest.mark.parametrize("how", sampled([*HOSTILE]))
def test_a_collector_that_misbehaves_costs_a_turn_nothing_but_its_spans(
    how: str, traced: System, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector._answer, reason = HOSTILE[how]
    traced.send("c1", "user_message", content="hello")
    assert traced.item("REGISTER")["phase"] == "dispatched"
    (lost,) = counted(caplog, own("SpansLost"))
    assert lost == 1
    (said,) = [record for record in caplog.records if record.message == "spans lost"]
    assert said.__dict__["reason"] in (reason, "timeout")
    traced.model.says("Hello")
    traced.run_step()
    assert traced.item("REGISTER")["phase"] == "idle"
    assert SECRET not in caplog.text


def test_nobody_listens_and_a_failed_collector_is_not_asked_again_for_a_minute(
    system: System, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as gone:
        endpoint = gone.endpoint
    system.environment = {ENDPOINT: endpoint, "METRICS": "true"}
    system.connect("c1")
    in_one_process(system)
    asked: list[bytes] = []
    exchanged = otlp.Collector._exchanged

    def ask(self: otlp.Collector, body: bytes) -> tuple[int, bytes]:
        asked.append(body)
        return exchanged(self, body)

    monkeypatch.setattr(otlp.Collector, "_exchanged", ask)
    system.ask("c1", "Hello")
    system.ask("c1", "Hello again")
    assert len(asked) == 1
    reasons = [record.__dict__["reason"] for record in caplog.records if record.message == "spans lost"]
    assert reasons == ["ConnectionRefusedError", "paused", "paused", "paused"]


def test_an_invocation_without_time_does_not_wait_for_the_collector(
    traced: System, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    traced.function("user_message")(traced.event("c1", {"type": "user_message", "content": "hello"}), Context(1_000))
    assert collector.received == []
    assert counted(caplog, own("SpansLost")) == [1]


def test_a_connection_that_was_closed_meanwhile_loses_no_span(
    traced: System, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.closes = True
    an_approved_turn(traced)
    assert counted(caplog, own("SpansLost")) == []
    assert "invoke_agent universal" in {span.name for span in collector.spans}


def test_a_connection_is_kept(traced: System, collector: Collector) -> None:
    in_one_process(traced)
    an_approved_turn(traced)
    assert collector.connections == 1
    assert len(collector.received) == 6


def test_spans_that_nobody_fetches_do_not_grow_without_end() -> None:
    spans = TurnSpans(1.0)
    for _ in range(turn_spans.MOST_SPANS + 7):
        spans.add_model_call(None, 1, {"gen_ai.request.model": "m"}, "")
    waiting, dropped = spans.take()
    assert (len(waiting), dropped) == (turn_spans.MOST_SPANS, 7)
    assert spans.take() == ([], 0)


# -- sampling, and off -------------------------------------------------------------------------------------------------


def test_the_sample_is_that_share_of_turns_and_all_functions_agree_on_it(traced: System, collector: Collector) -> None:
    traced.environment |= {"OTEL_TRACES_SAMPLER_ARG": "0.5"}
    for _ in range(12):
        (read,) = traced.ask("c1", "Let me see", READ)
        traced.send("c1", "tool_result", call_id=read, result={"content": "x"})
        traced.model.says("Done")
        traced.run_step()
    traces = {span.trace for span in collector.spans}
    assert 0 < len(traces) < 12
    for trace in traces:
        assert tree([span for span in collector.spans if span.trace == trace]).keys() == {"invoke_agent universal"}


def test_the_ratio_is_of_the_random_digits() -> None:
    traces = [f"{time.time_ns() // 10**9:08x}{turn_spans._digest(str(n))[:24]}" for n in range(2_000)]
    assert 350 < sum(is_sampled(trace, 0.2) for trace in traces) < 450
    assert not any(is_sampled(trace, 0.0) for trace in traces)
    assert all(is_sampled(trace, 1.0) for trace in traces)


def test_without_a_collector_nothing_is_sent_and_nothing_is_collected(system: System, collector: Collector) -> None:
    system.connect("c1")
    an_approved_turn(system)
    assert collector.received == []
    assert turn_log.spans() is None


_IMPORTED = """
import os, sys
os.environ |= {"TABLE_NAME": "T", "AWS_DEFAULT_REGION": "eu-west-1", "CONNECTIONS_URL": "https://a.example/p", **%r}
from codelab import gateway, turn_log
from codelab.gateway.app import WebSocketApp
from codelab.turns.messages import user_message
app = WebSocketApp(user_message)
turn_log.note_event("user_message", None)
turn_log.end(10_000)
print(sorted({"codelab.otlp", "codelab.turn_spans"} & sys.modules.keys()))
"""


def imported(**environment: str) -> str:
    program = [sys.executable, "-c", _IMPORTED % environment]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()


def test_without_a_collector_nothing_is_imported_for_it() -> None:
    assert imported() == "[]"
    assert imported(**{ENDPOINT: "http://127.0.0.1:9/v1/traces"}) == "['codelab.turn_spans']"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (ENDPOINT, "collector:4318"),
        (ENDPOINT, "http:///v1/traces"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ("OTEL_TRACES_SAMPLER_ARG", "half"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(variable: str, value: str, system: System) -> None:
    system.environment = {variable: value}
    with pytest.raises(Exception, match=variable):
        system.load("user_message")


# -- OTLP --------------------------------------------------------------------------------------------------------------


def test_hostile_names_are_only_text(collector: Collector) -> None:
    name = "<script>\x00\ud83d \u202e" + "x" * 3
    attributes = {"gen_ai.request.model": name, "list": ["a", 1, True], "empty": ""}
    span = Span("1" * 32, "2" * 16, "", f"chat {name}", Kind.CLIENT, 10**18, 10**18 + 1, attributes, "E")
    assert otlp.Collector(collector.endpoint, "codelab").send([span]) == (0, "")
    (received,) = collector.spans
    assert received.attributes == {"gen_ai.request.model": name, "list": ["a", 1, True], "error.type": "E"}
    assert received.is_error


def test_an_address_or_a_proxy_that_cannot_be_used_costs_only_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    span = Span("1" * 32, "2" * 16, "", "n", Kind.CLIENT, 10**18, 10**18)
    for url in ("http://host:port/", "http://\u00e9.example/", "ftp://host/"):
        assert otlp.Collector(url, "codelab").send([span]) == (1, "ValueError"), url
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    assert otlp.Collector("https://host.invalid/", "codelab").send([span]) == (1, "ProxyRefused")


def test_the_address_may_have_a_path_and_a_query() -> None:
    with Collector() as server:
        otlp.Collector(f"{server.url}/otlp/a b/v1/traces?token=1", "codelab").send(
            [Span("1" * 32, "2" * 16, "", "n", Kind.CLIENT, 10**18, 10**18)]
        )
        until(lambda: server.received)
        assert server.received[0].path == "/otlp/a%20b/v1/traces?token=1"
