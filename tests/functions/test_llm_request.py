"""llm_request: one step of a turn, on a stub of the model."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from codelab.llm.client.transport import Call
from codelab.sessions.register import LEASE_MS

from tests.fakes.aws.recorder import APPEND, INVOKE, POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.in_process import Answer, Body
from tests.fakes.model.script import call
from tests.fakes.model.told_results import told_results
from tests.functions.system import Context, System
from tests.garbage import left_frames
from tests.waiting import PATIENCE


def test_the_model_is_asked_after_one_read_while_the_step_is_acquired(connected: System) -> None:
    connected.model.says("Hi")
    connected.send("c1", "user_message", content="hello")
    connected.function("llm_request")
    connected.aws.once(UPDATE, lambda: connected.aws.wait_for("model", 1))
    connected.run_step()
    assert connected.aws.calls[0] == READ_MANY
    assert {*connected.aws.calls[1:3]} == {UPDATE, "model"}
    assert connected.history()[-1] == ("assistant", "Hi")


def test_a_step_whose_request_is_not_answered_can_be_cancelled(
    connected: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codelab.delivery.stream.WATCH_S", 0.05)
    control, cancelled = connected.function("control"), []

    def say_nothing(_body: Body, call: Call) -> Answer:
        assert connected.item("REGISTER")["phase"] == "running"
        control(connected.event("c1", {"type": "cancel"}))
        cancelled.append(call.cancellation.wait(PATIENCE))
        call.check()
        return ""

    connected.model.answer = say_nothing
    connected.send("c1", "user_message", content="hello")
    connected.run_step()
    assert cancelled == [True]


def test_nothing_is_shown_of_an_answer_before_the_step_is_acquired(connected: System) -> None:
    connected.send("c1", "user_message", content="hello")
    twin = dict(connected.aws.invokes[0][1])
    connected.model.says("The twin's")
    connected.model.says("Mine")
    runs = connected.load("llm_request")
    connected.function("llm_request")

    def another_acquires() -> None:
        runs(twin, Context(request_id="twin"))

    connected.aws.once(UPDATE, another_acquires)
    connected.run_step()
    texts = [frame["token"] for frame in connected.aws.frames("c1") if frame["type"] == "assistant_message"]
    assert "".join(texts) in ("The twin's", "Mine"), "one of them has the step, whichever model answered"
    assert len(connected.history()) == 2
    assert connected.aws.calls.count(TRANSACTION) == 1


def test_a_step_that_only_speaks_stays_within_its_budget(connected: System) -> None:
    connected.ask("c1", "Hi")
    assert Counter(connected.aws.calls) == {
        READ: 1,  # the register, beside the post of the text
        READ_MANY: 1,
        TRANSACTION: 1,  # the commit
        "model": 1,
        APPEND: 1,
        POST: 4,  # thinking, the text, the final, idle
        UPDATE: 1 + 1,  # acquire, report
    }
    last = connected.aws.calls[-4:]
    assert last == [TRANSACTION, POST, POST, UPDATE], "the commit, its posts, the report"


def test_each_later_batch_of_text_is_one_append_and_one_post_beside_a_read(system: System) -> None:
    system.environment = {"STREAM_MAX_DELAY_MS": "0"}
    system.connect("c1")
    pieces = ["one ", "two ", "three ", "four"]

    def speak() -> Iterator[str]:
        yield '{"message": "'
        for sent, piece in enumerate(pieces):
            system.aws.wait_for(POST, 1 + sent)  # the status and every piece before this one
            yield piece
        system.aws.wait_for(POST, 1 + len(pieces))
        yield '", "calls": []}'

    system.model.answers.append(speak())
    system.say("c1")
    counted = Counter(system.aws.calls)
    assert (counted[APPEND], counted[READ], counted[POST]) == (4, 4, 1 + 4 + 2)
    texts = [frame["token"] for frame in system.aws.frames("c1") if frame["type"] == "assistant_message"]
    assert texts == [*pieces, ""]


def test_the_answer_is_in_the_log_in_the_history_and_on_the_wire(extended: System) -> None:
    extended.ask("c1", "Привет!")
    assert extended.history() == [("user", "hello"), ("assistant", "Привет!")]
    frames = extended.aws.frames("c1")
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert [frame["type"] for frame in frames] == [
        "user_message", "agent_status", "assistant_message", "assistant_message", "turn_end", "agent_status",
    ]  # fmt: skip
    logged = [sk for _, sk in extended.all_keys() if sk.startswith("EVENT#")]
    assert logged == [f"EVENT#{frame['seq']:012d}" for frame in frames]
    register = extended.item("REGISTER")
    assert (register["phase"], register["status"], register["last_seq"]) == ("idle", "idle", len(frames))
    assert "due_at" not in register, "nothing is outstanding"
    assert "lease" not in register


def test_calls_are_sent_after_the_commit_that_holds_them(connected: System) -> None:
    (call_id,) = connected.ask("c1", "Reading", call("read_file", path="/src/a.py"))
    asked = next(frame for frame in connected.aws.frames("c1") if frame["type"] == "tool_call")
    assert (asked["call_id"], asked["arguments"], asked["requires_approval"]) == (call_id, {"path": "src/a.py"}, False)
    register = connected.item("REGISTER")
    assert register["phase"] == "waiting"
    assert register["due_at"] == register["calls"][call_id]["due"]
    committed = len(connected.aws.calls) - connected.aws.calls[::-1].index(TRANSACTION)
    *sent, last = connected.aws.calls[committed:]
    assert (set(sent), last) == ({POST}, UPDATE)
    # What was posted before the commit may still be on its way then, but nothing of the commit comes before it.
    posted = [frame["type"] for _, frame in connected.aws.posts]
    assert posted[-3:] == ["assistant_message", "tool_call", "agent_status"]
    assert (len(sent) >= 3, posted.count("tool_call")) == (True, 1)


def test_the_model_gets_the_history_and_the_agents_schema(connected: System) -> None:
    (call_id,) = connected.ask("c1", "Reading", call("read_file", path="a.py"))
    connected.send("c1", "tool_result", call_id=call_id, result={"content": "x = 1"})
    connected.model.says("Done")
    connected.run_step()
    messages = connected.model.requests[-1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    said = {"message": "Reading", "calls": [{"_tool": "read_file", "path": "a.py"}]}
    assert json.loads(messages[2]["content"]) == said, "in the form in which it answers"
    assert "x = 1" in told_results(messages)[0]
    assert connected.model.requests[-1]["response_format"]["type"] == "json_schema"


def test_a_duplicate_invocation_does_nothing(connected: System) -> None:
    connected.ask("c1", "Hi")
    before = connected.all_keys(), connected.item("REGISTER")
    connected.run_step()
    assert connected.aws.calls == [READ_MANY]
    assert (connected.all_keys(), connected.item("REGISTER")) == before
    assert len(connected.model.requests) == 1


def test_a_refused_call_is_told_to_the_model_in_the_same_invocation(connected: System) -> None:
    connected.model.says("", call("read_file", path="../secret"))
    connected.ask("c1", "I see")
    connected.model.answers.clear()
    assert len(connected.model.requests) == 2
    assert "PATH_OUTSIDE_WORKSPACE" in connected.model.requests[1]["messages"][-1]["content"]
    assert connected.aws.invokes == []
    assert [frame for frame in connected.aws.frames("c1") if frame["type"] == "tool_call"] == []


def test_a_step_for_which_the_time_is_too_short_is_left_to_another_invocation(connected: System) -> None:
    connected.model.says("", call("read_file", path="../secret"))
    connected.send("c1", "user_message", content="hello")
    connected.run_step(Context(remaining_ms=20_000))
    ((_, payload),) = connected.aws.invokes
    assert payload["step"] == 2
    assert len(connected.model.requests) == 1


def test_a_message_that_waited_is_answered_in_the_same_invocation(connected: System) -> None:
    connected.send("c1", "user_message", content="first")
    connected.send("c1", "user_message", content="second")
    connected.model.says("One")
    connected.model.says("Two")
    connected.run_step()
    assert [content for _, content in connected.history()] == ["first", "One", "second", "Two"]
    assert INVOKE not in connected.aws.calls


def test_the_lease_is_short_and_the_deadline_of_the_process_is_noted(connected: System) -> None:
    seen = []

    def speak() -> Iterator[str]:
        connected.aws.wait_for(UPDATE, 1)
        connected.aws.settle()
        seen.append(connected.item("REGISTER"))
        yield '{"message": "Hi", "calls": []}'

    connected.model.answers.append(speak())
    connected.send("c1", "user_message", content="hello")
    started = connected.function("llm_request").engine.clock()
    connected.run_step(Context(remaining_ms=100_000))
    assert seen[0]["phase"] == "running"
    assert seen[0]["attempt"] == 1
    assert started + LEASE_MS <= seen[0]["lease_until"] < started + 2 * LEASE_MS
    assert seen[0]["alive_until"] > started + 100_000
    assert not {"lease_until", "alive_until"} & connected.item("REGISTER").keys()


HELLO = json.dumps({"type": "hello"})


def test_who_is_gone_slows_nobody_down_and_is_forgotten_after_ten_seconds(connected: System) -> None:
    connected.connect("gone")
    connected.function("llm_request").clock_ms = 11_000  # both joined so long ago
    connected.aws.gone = {"gone"}
    connected.ask("c1", "Hi")
    assert "".join(f["token"] for f in connected.aws.frames("c1") if f["type"] == "assistant_message") == "Hi"
    assert connected.connections() == {"c1"}
    assert connected.item("REGISTER")["phase"] == "idle"


def test_who_joined_just_now_is_not_forgotten_for_an_early_410(connected: System) -> None:
    connected.connect("c2")
    connected.aws.gone = {"c2"}  # as API Gateway answers until $connect has returned
    connected.ask("c1", "Hi")
    assert connected.connections() == {"c1", "c2"}


def test_who_has_spoken_since_an_early_410_is_not_forgotten(connected: System) -> None:
    """A step lasts longer than `$connect`: whoever joined meanwhile would be told nothing until it speaks again."""

    class Joining(set[str]):
        def __contains__(self, connection_id: object) -> bool:
            if connection_id not in list(self) or connected.aws.folder != "llm_request":
                return False
            self.clear()
            connected.send_raw("c2", "control", HELLO)
            return True

    connected.connect("c2")
    connected.send_raw("c1", "control", HELLO)  # the function is loaded
    connected.aws.gone = Joining({"c2"})
    connected.ask("c1", "Hi")
    assert connected.aws.gone == set()
    assert connected.connections() == {"c1", "c2"}


def test_a_failed_answer_leaves_no_frame_with_its_messages(connected: System) -> None:
    connected.ask("c1", "Hi")
    with left_frames() as left:
        connected.ask("c1", "")
    assert [frame["error_code"] for frame in connected.aws.frames("c1") if frame["type"] == "error"] == ["LLM_ERROR"]
    assert left == []
