"""The lines of the log: metrics that ring the alarms, and the ids that connect lines."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codelab.llm.client.transport import Call
from codelab.llm.errors import TransportError
from codelab.observability import logger

from infra.observability.alarms import OURS, Alarm, Metric, alarms
from tests.fakes.aws.recorder import TRANSACTION
from tests.fakes.model.in_process import Body
from tests.fakes.model.script import call
from tests.fakes.model.wire import USAGE, delta
from tests.functions.system import System
from tests.functions.test_sweep import die
from tests.waiting import PATIENCE

Line = dict[str, Any]

READ = call("read_file", path="a.py")
WRITE = call("write_file", path="a.py", content="x")

#: The alarms on metrics of our own, by name.
WATCHED = {
    alarm.name: alarm
    for alarm in alarms({})
    if {metric.namespace for metric in (alarm.metric, *alarm.operands.values()) if metric} == {OURS}
}


@pytest.fixture
def watched(system: System) -> System:
    """A connected session of a stack with alarms, of which nobody reads the log."""
    system.environment = {"METRICS": "true", "LOG_LEVEL": "ERROR"}
    system.connect("c1")
    return system


def lines(caplog: pytest.LogCaptureFixture) -> list[Line]:
    """The lines as CloudWatch gets them."""
    written = logger().registered_formatter.format
    return [json.loads(written(record)) for record in caplog.records]


def counted(caplog: pytest.LogCaptureFixture, metric: Metric) -> list[float]:
    """All values of a metric, from the lines that declare it with its namespace and dimensions."""
    values: list[float] = []
    for line in lines(caplog):
        for declared in line.get("_aws", {}).get("CloudWatchMetrics", []):
            if metric.name in [one["Name"] for one in declared["Metrics"]]:
                (names,) = declared["Dimensions"]
                if names != list(metric.dimensions):
                    continue
                dimensions = {name: value.replace("${Stack}", "codelab") for name, value in metric.dimensions.items()}
                assert declared["Namespace"] == metric.namespace
                assert {name: line[name] for name in names} == dimensions
                assert line["_aws"]["Timestamp"] > 1_700_000_000_000
                value = line[metric.name]
                values += value if isinstance(value, list) else [value]
    return values


# -- each of these is what an alarm is there for -----------------------------------------------------------------------


def a_sweep_comes_late(system: System) -> None:
    system.sweep()  # its event is of the first of January


def a_session_is_due_for_long(system: System) -> None:
    system.send("c1", "user_message", content="hello")
    system.sweep(later_s=600)


def a_step_dies_three_times(system: System) -> None:
    system.send("c1", "user_message", content="hello")
    for _ in range(3):
        system.model.answers.append(broken(die))
        _, step = system.aws.last_invoke
        with pytest.raises(BaseException, match=r"\A\Z"):
            system.run_step()
        system.report_failure(step)


def the_table_refuses(system: System) -> None:
    system.aws.refuse(TRANSACTION, 400, "AccessDeniedException")
    system.send("c1", "user_message", content="hello")
    assert system.aws.frames("c1")[-1]["error_code"] == "DATABASE_ERROR"


def the_model_refuses(system: System) -> None:
    for _ in range(6):
        system.model.answers.append(broken(refuse))
        system.say("c1")


def the_first_text_comes_late(system: System) -> None:
    system.model.says("Hello")
    system.send("c1", "user_message", content="hello")
    system.function("llm_request").clock_ms = 15_000
    system.run_step()


def the_model_answers(system: System) -> None:
    system.ask("c1", "Hello")


def broken(end: Callable[[], None]) -> Iterator[str]:
    end()
    yield ""


def refuse() -> None:
    raise TransportError("no such model", status=404)


CAUSES = {
    "sweep-lag": a_sweep_comes_late,
    "oldest-due": a_session_is_due_for_long,
    "steps-given-up": a_step_dies_three_times,
    "handlers-failed": the_table_refuses,
    "model-errors": the_model_refuses,
    "first-token": the_first_text_comes_late,
    "tokens": the_model_answers,
}


@pytest.mark.parametrize("name", WATCHED)
def test_what_an_alarm_is_for_is_counted(name: str, watched: System, caplog: pytest.LogCaptureFixture) -> None:
    CAUSES[name](watched)
    assert is_over(WATCHED[name], caplog)


@pytest.mark.parametrize("name", [name for name in WATCHED if name != "tokens"])
def test_a_healthy_turn_rings_no_alarm(name: str, watched: System, caplog: pytest.LogCaptureFixture) -> None:
    watched.ask("c1", "Hello")
    assert not is_over(WATCHED[name], caplog)


def is_over(alarm: Alarm, caplog: pytest.LogCaptureFixture) -> bool:
    """Would the alarm ring, if it looked at all that was counted?"""
    if alarm.metric is None:
        requests, errors = (sum(counted(caplog, alarm.operands[name])) for name in ("requests", "errors"))
        assert alarm.expression == "IF(requests >= 5, 100 * errors / requests, 0)"
        value = 100 * errors / requests if requests >= 5 else 0
    else:
        values = counted(caplog, alarm.metric) or [0]
        value = sum(values) if alarm.statistic == "Sum" else max(values)
    return value > (alarm.threshold if isinstance(alarm.threshold, (int, float)) else 0)


def test_without_alarms_a_healthy_system_is_quiet_and_no_line_is_a_metric(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    system.connect("c1")
    system.ask("c1", "Hello")
    system.sweep()
    (call,) = system.ask("c1", "Let me see", READ)
    system.send("c1", "tool_result", call_id=call, result={"content": "x"})
    system.model.says("Done")
    system.run_step()
    assert lines(caplog) == []
    a_step_dies_three_times(system)
    (said,) = lines(caplog)
    assert (said["message"], said["StepsGivenUp"]) == ("step given up", 1)
    assert "_aws" not in said


def test_a_request_over_http_counts_too(watched: System, caplog: pytest.LogCaptureFixture) -> None:
    watched.model.answers.append('{"a": 1}')
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    request = {"kind": "request", "context": [{"role": "user", "content": "?"}], "schema": schema}
    watched.function("llm_request")({**request, "caller": {"user": "ann", "plan": "", "at": 0}})
    (line,) = lines(caplog)
    assert (line["message"], line["user"]) == ("model asked", "ann")
    assert counted(caplog, WATCHED["tokens"].metric or Metric("", "", {})) == [110]


def test_a_request_over_http_without_an_answer_is_an_error_of_the_model_and_not_of_the_function(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    """Lambda counts what a function raises, which rings for a crash."""
    watched.model.answers.append(broken(refuse))
    request = {"kind": "request", "context": [{"role": "user", "content": "?"}], "schema": {"type": "object"}}
    told = watched.function("llm_request")({**request, "caller": {"user": "ann", "plan": "", "at": 0}})
    assert told["errorType"] == "TransportError"
    assert "status 404" in told["errorMessage"]
    assert counted(caplog, WATCHED["model-errors"].operands["errors"]) == [1]


def test_a_request_that_its_user_cancels_is_no_error_of_the_model(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    control = watched.function("control")

    def say(_body: Body, call: Call) -> Iterator[str]:
        watched.until_a_step_runs()
        control(watched.event("c1", {"type": "cancel"}))
        yield '{"message": "It is '
        call.cancellation.wait(PATIENCE)
        call.check()

    watched.model.answer = say
    watched.say("c1")
    alarm = WATCHED["model-errors"]
    assert counted(caplog, alarm.operands["requests"]) == [1]
    assert counted(caplog, alarm.operands["errors"]) == [0]


# -- what the agent did ------------------------------------------------------------------------------------------------

PRICED = {"LLM_PRICES": '{"openai.gpt-oss-120b-1:0": {"prompt": 1, "completion": 10, "cached": 0.1}}'}


def own(name: str, **dimensions: str) -> Metric:
    return Metric(OURS, name, {"service": "${Stack}", **dimensions})


def test_a_turn_counts_its_steps_when_it_ends_and_the_waits_of_its_calls(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    asked, read = watched.ask("c1", "Let me see", WRITE, READ)
    watched.function("hitl_decision").clock_ms = 7_000
    watched.send("c1", "hitl_decision", call_id=asked, decision="approve")
    watched.function("tool_result").clock_ms = 9_000
    watched.send("c1", "tool_result", call_id=asked, result={"success": True})
    assert counted(caplog, own("TurnSteps")) == []
    watched.send("c1", "tool_result", call_id=read, result={"content": "x"})
    watched.model.says("Done")
    watched.run_step()
    assert counted(caplog, own("TurnSteps")) == [2]
    (approval_ms,) = counted(caplog, own("ApprovalWaitMs"))
    written_ms, read_ms = counted(caplog, own("ToolWaitMs"))
    assert 7_000 <= approval_ms < 8_000 + PATIENCE * 1000
    assert written_ms < read_ms, "the time for the approval is not the tool's"
    assert read_ms >= 9_000
    settled = [line for line in lines(caplog) if line["message"] == "calls settled"]
    assert [(line["tools"], line["states"]) for line in settled] == [
        (["write_file"], ["completed"]),
        (["read_file"], ["completed"]),
    ]
    (ended,) = [line for line in lines(caplog) if line["message"] == "turn ended"]
    assert (ended["reason"], ended["session"]) == ("completed", SESSION)


def test_a_rejected_call_has_waited_for_a_human_and_for_no_tool(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    (asked,) = watched.ask("c1", "Let me write", WRITE)
    watched.send("c1", "hitl_decision", call_id=asked, decision="reject")
    assert len(counted(caplog, own("ApprovalWaitMs"))) == 1
    assert counted(caplog, own("ToolWaitMs")) == []


def test_an_approval_that_nobody_gives_counts_when_its_time_is_over(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    watched.ask("c1", "Let me write", WRITE)
    watched.sweep(later_s=86_401)
    (approval_ms,) = counted(caplog, own("ApprovalWaitMs"))
    assert approval_ms >= 86_400_000


def test_a_cancelled_turn_counts_its_steps_and_no_wait(watched: System, caplog: pytest.LogCaptureFixture) -> None:
    watched.ask("c1", "Let me see", READ)
    watched.function("control")(watched.event("c1", {"type": "cancel"}))
    assert counted(caplog, own("TurnSteps")) == [1]
    assert counted(caplog, own("ToolWaitMs")) == counted(caplog, own("ApprovalWaitMs")) == []
    (settled,) = [line for line in lines(caplog) if line["message"] == "calls settled"]
    assert settled["states"] == ["cancelled"]
    assert "_aws" not in settled, "a declaration without metrics is no valid one"


def test_a_repaired_answer_and_one_that_stays_invalid_are_told_apart(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    watched.model.answers += ['{"no": 1}', '{"message": "Hello", "calls": []}']
    watched.say("c1")
    assert counted(caplog, own("InvalidAnswers")) == counted(caplog, own("ModelRepairs")) == [1]
    assert counted(caplog, own("ModelErrors")) == [0]
    caplog.clear()
    watched.model.answers += ['{"no": 1}'] * 9
    watched.say("c1")
    (invalid,), (repairs,) = counted(caplog, own("InvalidAnswers")), counted(caplog, own("ModelRepairs"))
    assert invalid == repairs + 1
    assert counted(caplog, own("ModelErrors")) == [1]


def test_tokens_and_cost_are_counted_for_the_model_and_never_for_the_user(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    watched.environment |= PRICED
    watched.ask("c1", "Hello")
    model = "openai.gpt-oss-120b-1:0"
    assert counted(caplog, own("Tokens", model=model)) == [110]
    assert counted(caplog, own("CostUsd", model=model)) == [pytest.approx(200e-6)]
    assert counted(caplog, own("PromptTokens")) == [100]
    assert counted(caplog, own("CachedTokens")) == [0]
    declared = [it for line in lines(caplog) for it in line.get("_aws", {}).get("CloudWatchMetrics", [])]
    dimensions = {name for it in declared for names in it["Dimensions"] for name in names}
    assert dimensions == {"service", "model"}


def test_what_is_written_to_a_cache_is_counted_where_the_provider_reports_it(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    watched.ask("c1", "Hello")
    assert counted(caplog, own("CacheWriteTokens")) == [], "a metric of zeros has a price too"
    caplog.clear()
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 30}}
    answer = {**delta(json.dumps({"message": "Hello", "calls": []}), finish="stop"), "usage": usage}
    watched.model.answers.append(answer)
    watched.say("c1")
    assert counted(caplog, own("CacheWriteTokens")) == [30]
    assert counted(caplog, own("CachedTokens")) == [20]


def test_a_model_that_nobody_may_choose_is_no_dimension(watched: System, caplog: pytest.LogCaptureFixture) -> None:
    """Each value of a dimension is another metric: a program must not be able to make them."""
    request = {"kind": "request", "context": [{"role": "user", "content": "?"}], "schema": {"type": "object"}}
    caller = {"user": "ann", "plan": "", "at": 0}
    watched.function("llm_request")({**request, "config": {"model": "invented"}, "caller": caller})
    assert lines(caplog) == []
    assert watched.model.requests == []


def test_without_a_price_there_is_no_cost(watched: System, caplog: pytest.LogCaptureFixture) -> None:
    watched.ask("c1", "Hello")
    assert not [line for line in lines(caplog) if "CostUsd" in line]


# -- ids ---------------------------------------------------------------------------------------------------------------

SESSION = "SESSION#ann#s1"


def test_lines_of_a_frame_name_session_connection_and_request(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    the_table_refuses(watched)
    (line,) = [line for line in lines(caplog) if line["message"] == "aws call failed"]
    assert (line["session"], line["connection"]) == (SESSION, "c1")
    assert line["request_id"]


def test_lines_of_a_step_name_session_turn_and_request(watched: System, caplog: pytest.LogCaptureFixture) -> None:
    the_model_answers(watched)
    (line,) = [line for line in lines(caplog) if line["message"] == "model asked"]
    assert line["session"] == SESSION
    assert line["turn"] == watched.item("REGISTER")["turn_id"]
    assert line["request_id"]
    assert "connection" not in line, "it was of the frame before"


def test_lines_of_the_sweep_name_the_session_that_each_is_about(
    watched: System, caplog: pytest.LogCaptureFixture
) -> None:
    a_step_dies_three_times(watched)
    (line,) = [line for line in lines(caplog) if line["message"] == "step given up"]
    assert line["session"] == SESSION
    assert line["turn"]
    watched.sweep()
    swept = lines(caplog)[-1]
    assert swept["message"] == "swept"
    assert "session" not in swept
