"""The conversations that are played: what the user, the human in the loop, the IDE and the model do in each."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.fakes.ide.received import Frame
from tests.fakes.model.in_process import CUT, END, NO_SUMMARY, PAUSE, SILENCE, STOP, THOUGHT, says
from tests.fakes.model.script import Says, call
from tests.faults.fault import APPEND, INVOKE, POST, Fault, Kind
from tests.faults.functions import NATIVE, OWN_MODEL, THINKER
from tests.faults.player import Conversation, Reaction

SOON = 200


def say(script: str, n: int = 1, **fields: Any) -> Frame:
    return {"type": "user_message", "content": f"[[{script}]] message {n}", "client_msg_id": f"m{n}", **fields}


def _long(n: int, script: str = "long") -> Frame:
    """After three of them the first ones become a summary."""
    return {"type": "user_message", "content": f"[[{script}]] message {n} " + "word " * 1_800, "client_msg_id": f"m{n}"}


def result(frame: Frame, value: Any, **fields: Any) -> Frame:
    return {"type": "tool_result", "call_id": frame["call_id"], "result": value, **fields}


def decision(kind: str, delay: int = 1_000, **fields: Any) -> Callable[[Frame], Sequence[Reaction]]:
    """The human decides so about every call that asks."""
    return lambda frame: [(delay, {"type": "hitl_decision", "call_id": frame["call_id"], "decision": kind, **fields})]


def execute(frame: Frame) -> Sequence[Reaction]:
    """The IDE does what the call says."""
    return [(SOON, result(frame, {"done": frame["tool_name"], "with": frame["arguments"]}))]


def _out_of_order(frame: Frame) -> Sequence[Reaction]:
    return [({"a.py": 900, "b.py": 300, "c.py": 600}[frame["arguments"]["path"]], execute(frame)[0][1])]


def _large(frame: Frame) -> Sequence[Reaction]:
    return [(SOON, result(frame, {"content": "line\n" * 30_000}))]


def _written(frame: Frame) -> Sequence[Reaction]:
    return [(SOON, result(frame, {"success": True, "bytes": frame["payload_bytes"]}))]


def _in_pieces(frame: Frame) -> Sequence[Reaction]:
    """A command that is still running says so by an exit code of null."""
    return [
        (200, result(frame, {"stdout": "one\n", "exit_code": None}, offset=0)),
        (400, result(frame, {"stdout": "two\n", "exit_code": None}, offset=4)),
        (600, result(frame, {"stdout": "one\ntwo\n", "exit_code": 0})),
    ]


def _approve_if_it_must(frame: Frame) -> Sequence[Reaction]:
    """Only the executor approves by its result. While the server still takes a lost connection for that one, the same
    IDE on a new one is refused; any connection may decide, so it says that it approves and gets the call to execute.
    """
    return decision("approve")(frame) if frame["error_code"] == "PERMISSION_DENIED" else ()


def _is(frame_type: str, **fields: Any) -> Callable[[Frame], bool]:
    return lambda frame: frame["type"] == frame_type and all(frame.get(name) == it for name, it in fields.items())


READ_A, READ_B, READ_C = (call("read_file", path=f"{name}.py") for name in "abc")
WRITE = call("write_file", path="a.py", content="x = 1")
#: The same as a model writes it that calls in its text.
_WRITTEN = json.dumps({"name": "write_file", "arguments": {"path": "a.py", "content": "x = 1"}})
EDIT = call("edit_file", path="a.py", edits=[{"old": "x = 1", "new": "x = 2"}])
WRITE_MUCH = call("write_file", path="a.py", content="x = 1\n" * 30_000)
READ_ON = call("read_result", call_id=CUT, offset=8_000)
RUN = call("run_command", command="make")
_OWN = {"name": "ide.deploy", "description": "Deploy the project."}
PLAN = call("update_plan", items=[{"text": "Read a.py", "status": "in_progress"}])

_PIXEL = {
    "type": "image",
    "media_type": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
}
_ANSWER = says("It is ", "done.")
_ONE_TOOL = {"one": [says("Reading. ", calls=[READ_A]), _ANSWER]}
_WRITING = {"write": [says("Writing. ", calls=[WRITE]), _ANSWER]}
_INVALID = '{"agent": "coder", "message": "", "calls": [{"_tool": "none"}]}'
_INVALID_CALL = '{"message": "", "calls": [{"_tool": "none"}]}'
_STOPPED = says("It is ", PAUSE, "far ", STOP, "from over.")
_PROPOSAL = call("propose_plan", steps=["Test a.py", "Mend a.py"], explanation="It is broken.")
_OTHER_PROPOSAL = call("propose_plan", steps=["Mend a.py"])
_PLANNING = {
    "mend": [
        says("Looking. ", calls=[READ_A]),
        says("A plan. ", calls=[_PROPOSAL]),
        says("Writing. ", calls=[WRITE]),
        _ANSWER,
    ]
}
_WRITES_AND_READS = json.dumps({"message": "", "calls": [WRITE, READ_A]})
_IN_PLAN: list[Frame] = [{"type": "session_config", "mode": "plan", "last_seq": 0}]
#: Longer than a frame takes that is sent again after a death.
_LATER = 60_000


def _ping(frame: Frame) -> Sequence[Reaction]:
    """The refusal of a late decision was to be expected."""
    return [(SOON, {"type": "ping"})] if frame["error_code"] == "INVALID_CALL_ID" else ()


def _switching(mode: str, *reactions: Callable[[Frame], Sequence[Reaction]]) -> Callable[[Frame], Sequence[Reaction]]:
    """The user switches the mode, and later reacts to the call as well."""
    return lambda frame: [
        (SOON, {"type": "session_config", "mode": mode, "last_seq": frame["seq"]}),
        *((_LATER, reaction) for react in reactions for _, reaction in react(frame)),
    ]


def _only_the_other_plan(frame: Frame) -> Sequence[Reaction]:
    if frame["arguments"].get("steps") == _PROPOSAL["steps"]:
        return decision("reject", feedback="Without the test")(frame)
    return decision("approve")(frame)


def _a_shorter_plan(frame: Frame) -> Sequence[Reaction]:
    """And the rest of it without questions."""
    return decision("edit", modified_arguments={"steps": ["Mend a.py"]}, mode="autonomous")(frame)


def _subagent(script: str, agent: str = "universal") -> dict[str, Any]:
    return call("delegate", agent=agent, task=f"[[{script}]] look")


_DELEGATING: list[Frame] = [
    {"type": "hello", "capabilities": {"tools_supported": ["read_file", "write_file", "run_command", "delegate"]}}
]
_FOUND = says("It is ", "in a.py.")
_ONE_SUBAGENT = {
    "ask": [says("Asking. ", calls=[_subagent("look", "explore")]), _ANSWER],
    "look": [says("Reading. ", calls=[READ_A]), _FOUND],
}
_TWO_SUBAGENTS = {
    "both": [says("Asking. ", calls=[_subagent("look"), _subagent("write")]), _ANSWER],
    "look": [says("Reading. ", calls=[READ_A]), _FOUND],
    "write": _WRITING["write"],
}
_ONE_WRITER = {"ask": [says("Asking. ", calls=[_subagent("write")]), _ANSWER], **_WRITING}


_AGENTS = [
    {
        "name": "inspector",
        "description": "Looks for x.",
        "prompt": "You are strict.",
        "tools": ["read_file"],
        "mode": "ask",
    }
]
_DECLARING: list[Frame] = [{**frame, "agents": _AGENTS} for frame in _DELEGATING]
_RESULT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
_ONE_OF_THE_PROJECT = {
    "ask": [
        says(
            "Asking. ",
            calls=[call("delegate", agent="inspector", task="[[look]] look", result_schema=_RESULT), WRITE],
        ),
        _ANSWER,
    ],
    "look": [
        says("Reading. ", calls=[READ_A]),
        Says(
            raw=json.dumps({"message": "Found. ", "calls": []}),
            repaired=Says(raw=json.dumps({"message": "", "calls": [], "result": {"x": 1}})),
        ),
    ],
}


def _cancel_in_time(frame: Frame) -> Sequence[Reaction]:
    return [(SOON, {"type": "cancel", "turn_id": frame["turn_id"]})]


CONVERSATIONS = [
    Conversation("simple", {"hi": [says("Hello, ", "Ann. ", "How are you?")]}, [say("hi")]),
    Conversation(
        "an end that comes with the last piece",
        {"one": [says("Reading. ", END + "Now.", calls=[READ_A]), says("It is ", END + "done.")]},
        [say("one")],
    ),
    # A message without an id must not be sent again, so nothing but the server's own repeats may be needed.
    Conversation(
        "messages without ids",
        {"one": [says("Reading. ", calls=[READ_A]), _ANSWER], "hi": [_ANSWER]},
        [{"type": "user_message", "content": f"[[{script}]] hello"} for script in ("one", "hi")],
        execute=execute,
        only=frozenset({Kind.ANSWER_LOST, Kind.CONFLICT, Kind.DENIED}),
    ),
    Conversation("one tool", _ONE_TOOL, [say("one")], execute=execute),
    Conversation(
        "three tools",
        {"three": [says(calls=[READ_A, READ_B, READ_C]), _ANSWER]},
        [say("three")],
        execute=_out_of_order,
    ),
    Conversation(
        "thinking",
        {
            "think": [
                says(THOUGHT + "What is in it? ", calls=[READ_A]),
                says(THOUGHT + "So ", THOUGHT + "that. ", "It is ", "done."),
            ],
        },
        [say("think")],
        execute=execute,
    ),
    Conversation(
        "attachments",
        {"one": [says("Reading. ", calls=[READ_A]), _ANSWER]},
        [say("one", attachments=[_PIXEL, {"type": "text", "name": "a.log", "content": "line\n" * 10_000}])],
        execute=execute,
    ),
    Conversation("approve", _WRITING, [say("write")], decide=decision("approve"), execute=execute),
    Conversation(
        "edit",
        _WRITING,
        [say("write")],
        decide=decision("edit", modified_arguments={"path": "b.py", "content": "x = 2"}),
        execute=execute,
    ),
    Conversation(
        "a command that may run again",
        {"run": [says("Running. ", calls=[RUN]), says("Again. ", calls=[RUN]), _ANSWER]},
        [say("run")],
        before=[{"type": "hello", "platform": "linux", "capabilities": {"tools": [_OWN]}}],
        decide=decision("approve", remember={"scope": "session"}),
        execute=execute,
    ),
    # The model is offered the tool only if the IDE says that it executes it, on each of its connections.
    Conversation(
        "an exact edit",
        {"change": [says("Changing. ", calls=[EDIT]), _ANSWER]},
        [say("change")],
        before=[{"type": "hello", "capabilities": {"tools_supported": ["read_file", "edit_file"]}}],
        decide=decision("approve"),
        execute=execute,
    ),
    Conversation("reject", _WRITING, [say("write")], decide=decision("reject", feedback="not that file")),
    # The IDE asks its user by itself and sends the result only.
    Conversation(
        "implicit approval",
        _WRITING,
        [say("write")],
        decide=execute,
        execute=execute,
        refused=_approve_if_it_must,
    ),
    Conversation(
        "approve one, execute another",
        {"both": [says("Both. ", calls=[READ_A, WRITE]), _ANSWER]},
        [say("both")],
        decide=decision("approve"),
        execute=execute,
    ),
    Conversation("approval expires", _WRITING, [say("write")]),
    Conversation("tool times out", _ONE_TOOL, [say("one")]),
    Conversation(
        "partial output",
        {"run": [says("Running. ", calls=[RUN]), _ANSWER]},
        [say("run")],
        decide=decision("approve"),
        execute=_in_pieces,
        viewers=1,
    ),
    Conversation(
        "cancel while it streams",
        {"long": [_STOPPED], "hi": [_ANSWER]},
        [say("long"), say("hi", 2)],
        during=[(1_000, {"type": "cancel"})],
        loose=True,
    ),
    Conversation(
        "cancel while a tool runs",
        {"one": [says("Reading. ", calls=[READ_A, WRITE])], "hi": [_ANSWER]},
        [say("one"), say("hi", 2)],
        execute=lambda _: [(SOON, {"type": "cancel"})],
    ),
    Conversation(
        "queue",
        {"first": [says("One ", PAUSE, "moment.")], "second": [_ANSWER], "third": [says("Third.")]},
        [say("first")],
        during=[(500, say("second", 2)), (5_000, say("third", 3))],
    ),
    Conversation(
        "interrupt",
        {"first": [_STOPPED], "second": [_ANSWER]},
        [say("first")],
        before=[{"type": "session_config", "when_busy": "interrupt"}],
        during=[(1_000, say("second", 2))],
        loose=True,
    ),
    Conversation(
        "a message that interrupts",
        {"first": [_STOPPED], "second": [_ANSWER]},
        [say("first")],
        during=[(1_000, say("second", 2, when_busy="interrupt"))],
        loose=True,
    ),
    Conversation(
        "steering",
        {"one": [says("Reading. ", PAUSE, calls=[READ_A])], "steer": [says("Then ", "so.")]},
        [say("one")],
        during=[(500, say("steer", 2, when_busy="steer"))],
        execute=execute,
    ),
    Conversation(
        "steering a turn that ends",
        {"one": [says("One ", PAUSE, "moment.")], "steer": [_ANSWER], "third": [says("Third.")]},
        [say("one")],
        during=[(500, say("third", 3)), (3_800, say("steer", 2, when_busy="steer"))],
    ),
    Conversation(
        "withdrawal",
        {"first": [says("One ", PAUSE, "moment.")], "third": [_ANSWER]},
        [say("first")],
        during=[
            (100, say("second", 2)),
            (3_500, say("third", 3)),
            (7_000, {"type": "withdraw", "client_msg_id": "m2", "request_id": "r1"}),
        ],
        pause_ms=16_000,  # so that it comes in time, also when it is sent again
    ),
    Conversation(
        "a cancel that overtakes its message",
        {"first": [says("One ", PAUSE, "moment.")], "third": [_ANSWER]},
        [say("first"), say("third", 3)],
        during=[(100, {"type": "cancel", "client_msg_id": "m2"}), (4_000, say("second", 2))],
    ),
    Conversation(
        "cancel, and the queue with it",
        {"first": [_STOPPED], "third": [_ANSWER]},
        [say("first"), say("third", 3)],
        during=[(100, say("second", 2)), (4_000, {"type": "cancel", "queued": True})],
        loose=True,
    ),
    Conversation(
        "agent switch",
        {"one": [says("Reading. ", calls=[READ_A]), _ANSWER], "two": [says("Here I am.")]},
        [
            say("one"),
            {"type": "switch_agent", "agent_type": "universal", "content": "[[two]] you", "client_msg_id": "m2"},
            {"type": "switch_agent", "agent_type": "universal"},
        ],
        execute=execute,
    ),
    Conversation(
        "an agent is chosen",
        {"one": [says("Reading. ", calls=[READ_A]), _ANSWER], "two": [says("Still here.")]},
        [
            {"type": "switch_agent", "agent_type": "orchestrator", "content": "[[one]] me", "client_msg_id": "m1"},
            say("two", 2),
        ],
        execute=execute,
    ),
    Conversation(
        "an agent with a model of its own is chosen",
        {"one": [says("Reading. ", calls=[READ_A], agent=OWN_MODEL), _ANSWER]},
        [{"type": "switch_agent", "agent_type": "orchestrator", "content": "[[one]] me", "client_msg_id": "m1"}],
        execute=execute,
    ),
    Conversation(
        "an agent is chosen in an answer that is repaired",
        {"bad": [Says(raw=_INVALID, repaired=says("Well. ", calls=[READ_A])), _ANSWER]},
        [{"type": "switch_agent", "agent_type": "orchestrator", "content": "[[bad]] me", "client_msg_id": "m1"}],
        execute=execute,
    ),
    # The first answer has a title, so it is asked for as JSON.
    Conversation(
        "native calls",
        {
            "one": [
                says("Reading. ", calls=[READ_A]),
                says("And ", "more. ", calls=[READ_B, READ_C], natively=True),
                says("It is ", "done.", natively=True),
            ],
            "write": [says("Writing. ", calls=[WRITE, PLAN], natively=True), says("Written.", natively=True)],
        },
        [
            {"type": "switch_agent", "agent_type": NATIVE, "content": "[[one]] me", "client_msg_id": "m1"},
            say("write", 2),
        ],
        decide=decision("approve"),
        execute=execute,
    ),
    # The first answer is not kept; the model (`in_process`) refuses a step without the reasoning of the others.
    Conversation(
        "kept reasoning",
        {
            "think": [
                says(THOUGHT + "What? ", "Reading. ", calls=[READ_A]),
                says(THOUGHT + "More of it. ", "And ", "more. ", calls=[READ_B, PLAN], natively=True),
                says(THOUGHT + "The last ", THOUGHT + "one. ", calls=[WRITE], natively=True),
                says(THOUGHT + "So. ", "It is ", "done.", natively=True),
            ],
            "write": [
                says(THOUGHT + "A plan. ", "Well. ", calls=[PLAN], natively=True),
                says(THOUGHT + "A file. ", calls=[READ_C], natively=True),
                says("Written.", natively=True),
            ],
        },
        [
            {"type": "switch_agent", "agent_type": THINKER, "content": "[[think]] me", "client_msg_id": "m1"},
            say("write", 2),
        ],
        decide=decision("approve"),
        execute=execute,
    ),
    Conversation(
        "a call that is written as text",
        {
            "hi": [says("Hello.")],
            "write": [
                Says(raw=f"Writing.\n<tool_call>{_WRITTEN}</tool_call>", natively=True),
                says("Written.", natively=True),
            ],
        },
        [
            {"type": "switch_agent", "agent_type": NATIVE, "content": "[[hi]] me", "client_msg_id": "m1"},
            say("write", 2),
        ],
        before=[{"type": "session_config", "autonomy": "autonomous"}],
        decide=decision("approve"),
        execute=execute,
    ),
    Conversation("a summary", {"long": [_ANSWER]}, [_long(n) for n in range(1, 5)]),
    Conversation(
        "a summary that fails",
        {NO_SUMMARY: [_ANSWER]},
        [*(_long(n, NO_SUMMARY) for n in range(1, 4)), say(NO_SUMMARY, 4)],
    ),
    Conversation(
        "a compaction that is asked for",
        {"long": [_ANSWER]},
        [*(_long(n) for n in range(1, 3)), {"type": "compact", "request_id": "r1"}, say("long", 3)],
    ),
    Conversation(
        "a compaction that is asked for during a step",
        {"long": [_ANSWER], "slow": [says("Well, ", PAUSE, "it is ", "done.")]},
        [*(_long(n) for n in range(1, 3)), say("slow", 3)],
        during=[(500, {"type": "compact", "request_id": "r1"})],
    ),
    Conversation(
        "the model refuses", {"no": [Says(status=400)], "hi": [_ANSWER]}, [say("no"), say("hi", 2)], execute=execute
    ),
    Conversation(
        "the model breaks off",
        {"half": [Says(pieces=("It ", "is "), cut=2)], "hi": [_ANSWER]},
        [say("half"), say("hi", 2)],
    ),
    Conversation(
        "repair",
        {
            "bad": [
                Says(raw=_INVALID_CALL, repaired=says("Well. ", calls=[READ_A])),
                _ANSWER,
            ]
        },
        [say("bad")],
        execute=execute,
    ),
    Conversation(
        "a call that is refused",
        {"bad": [says("Up. ", calls=[call("read_file", path="../up")]), says("Then so. ", calls=[READ_A]), _ANSWER]},
        [say("bad")],
        execute=execute,
    ),
    Conversation(
        "a plan, and then a tool",
        {"plan": [says("A plan. ", calls=[PLAN]), says(calls=[PLAN, READ_A]), _ANSWER]},
        [say("plan")],
        execute=execute,
    ),
    Conversation(
        "a plan that is accepted",
        _PLANNING,
        [say("mend")],
        before=_IN_PLAN,
        decide=decision("approve"),
        execute=execute,
        viewers=1,
    ),
    Conversation(
        "a plan that is edited", _PLANNING, [say("mend")], before=_IN_PLAN, decide=_a_shorter_plan, execute=execute
    ),
    Conversation(
        "a plan that is rejected, and another one",
        {"mend": [says("A plan. ", calls=[_PROPOSAL]), says("So? ", calls=[_OTHER_PROPOSAL, READ_A]), _ANSWER]},
        [say("mend")],
        before=_IN_PLAN,
        decide=_only_the_other_plan,
        execute=execute,
    ),
    Conversation(
        "a plan that nobody decides about",
        {"mend": [says("A plan. ", calls=[_PROPOSAL]), says("Then not.")]},
        [say("mend")],
        before=_IN_PLAN,
    ),
    Conversation(
        "a plan, and the turn is cancelled",
        {"mend": [says("A plan. ", calls=[_PROPOSAL])], "hi": [_ANSWER]},
        [say("mend"), say("hi", 2)],
        before=_IN_PLAN,
        decide=lambda _: [(SOON, {"type": "cancel"})],
    ),
    Conversation(
        "a plan, and the user goes on without it",
        {"mend": [says("A plan. ", calls=[_PROPOSAL]), says("Writing. ", calls=[WRITE]), _ANSWER]},
        [say("mend")],
        before=_IN_PLAN,
        decide=lambda frame: (
            _switching("autonomous", decision("approve"))(frame) if "steps" in frame["arguments"] else ()
        ),
        execute=execute,
        refused=_ping,
    ),
    Conversation(
        "a write while the agent only reads",
        {"write": [Says(raw=_WRITES_AND_READS, repaired=says("Reading. ", calls=[READ_A])), _ANSWER]},
        [say("write")],
        before=[{"type": "session_config", "mode": "ask", "last_seq": 0}],
        execute=execute,
    ),
    Conversation(
        "a mode that is switched while a call waits",
        {"write": [says("Writing. ", calls=[READ_A, WRITE]), says("A plan. ", calls=[_PROPOSAL]), _ANSWER]},
        [say("write")],
        decide=lambda frame: (
            decision("approve", _LATER)(frame)
            if "steps" in frame["arguments"]
            else _switching("plan", decision("approve"), execute)(frame)
        ),
        execute=execute,
        refused=_ping,
    ),
    Conversation(
        "a mode that is switched while a call runs",
        {"write": [says("Writing. ", calls=[WRITE]), _ANSWER]},
        [say("write")],
        before=[{"type": "session_config", "mode": "autonomous", "last_seq": 0}],
        execute=_switching("ask", execute),
    ),
    Conversation(
        "a mode that is switched while the model answers",
        {"mend": [says("Reading", PAUSE, ". ", calls=[READ_A]), says("A plan. ", calls=[_PROPOSAL]), _ANSWER]},
        [say("mend")],
        during=[(100, {"type": "session_config", "mode": "plan", "last_seq": 2})],
        pause_ms=16_000,
        decide=decision("approve"),
        execute=execute,
    ),
    # After a death the model is asked in the new mode, and would be told that there is no such tool.
    Conversation(
        "a mode that is switched while the model writes",
        {"write": [says("Writing", PAUSE, ". ", calls=[WRITE]), says("A plan. ", calls=[_PROPOSAL]), _ANSWER]},
        [say("write")],
        during=[(100, {"type": "session_config", "mode": "plan", "last_seq": 2})],
        pause_ms=16_000,
        decide=decision("approve"),
        only=frozenset({Kind.ANSWER_LOST, Kind.CONFLICT, Kind.DENIED}),
    ),
    Conversation(
        "a large result",
        {"one": [says("Reading. ", calls=[READ_A]), says("Reading on. ", calls=[READ_ON]), _ANSWER]},
        [say("one")],
        execute=_large,
    ),
    Conversation(
        "a large call",
        {"large": [says("Writing. ", calls=[WRITE_MUCH, READ_A]), _ANSWER]},
        [say("large")],
        decide=decision("approve"),
        execute=lambda frame: _written(frame) if "payload_url" in frame else execute(frame),
    ),
    Conversation(
        "a large edit",
        _WRITING,
        [say("write")],
        decide=decision("edit", modified_arguments={"path": "b.py", "content": "x = 2\n" * 30_000}),
        execute=_written,
    ),
    Conversation(
        "slow model",
        {"slow": [says("Well, ", PAUSE, SILENCE, "it is ", "done.")]},
        [say("slow")],
        pause_ms=70_000,
        watch_s=0.05,
    ),
    Conversation(
        "an owner that was stopped",
        {"stopped": [says("Well, ", PAUSE, "it is ", "done.")]},
        [say("stopped")],
        pause_ms=70_000,
        pauses_once=True,
    ),
    Conversation(
        "two clients, one leaves and comes back",
        _ONE_TOOL,
        [say("one")],
        execute=lambda frame: [(4_000, execute(frame)[0][1])],
        leaves_at=_is("tool_call"),
        viewers=1,
    ),
    *(
        Conversation(name, _ONE_TOOL, [say("one")], execute=execute, accident=accident)
        for name, accident in (
            ("a step that died", Fault(2, Kind.KILLED_AFTER, APPEND, 1)),
            ("an invoke that was lost", Fault(1, Kind.KILLED_BEFORE, INVOKE, 1)),
            ("frames that nobody posted", Fault(2, Kind.KILLED_BEFORE, POST, 3)),
        )
    ),
    Conversation("a subagent", _ONE_SUBAGENT, [say("ask")], before=_DELEGATING, execute=execute),
    Conversation(
        "a subagent without calls",
        {"ask": _ONE_SUBAGENT["ask"], "look": [_FOUND]},
        [say("ask")],
        before=_DELEGATING,
    ),
    Conversation(
        "two subagents, of which one needs an approval, and a call beside them",
        {
            "both": [says("Asking. ", calls=[_subagent("look"), _subagent("write"), READ_B]), _ANSWER],
            "look": [says("Reading. ", calls=[READ_A, READ_C]), _FOUND],
            "write": _WRITING["write"],
        },
        [say("both")],
        side_by_side=True,
        before=_DELEGATING,
        decide=decision("approve"),
        execute=execute,
    ),
    Conversation(
        "a subagent that is not allowed to",
        _ONE_WRITER,
        [say("ask")],
        before=_DELEGATING,
        decide=decision("reject", feedback="not that file"),
    ),
    Conversation("a subagent that nobody allows to", _ONE_WRITER, [say("ask")], before=_DELEGATING),
    Conversation(
        "a cancelled turn with subagents",
        _TWO_SUBAGENTS,
        [say("both")],
        loose=True,
        side_by_side=True,
        before=_DELEGATING,
        decide=_cancel_in_time,
    ),
    Conversation(
        "a connection that is lost with subagents",
        _TWO_SUBAGENTS,
        [say("both")],
        side_by_side=True,
        before=_DELEGATING,
        decide=decision("approve"),
        execute=execute,
        leaves_at=_is("tool_call", requires_approval=True),
    ),
    Conversation(
        "a cancelled turn whose subagent writes",
        {"ask": _ONE_SUBAGENT["ask"], "look": [says("It is ", PAUSE, "far ", "from over.")]},
        [say("ask")],
        before=_DELEGATING,
        during=[(SOON, {"type": "cancel"})],
        loose=True,
    ),
    Conversation(
        "a subagent whose owner was stopped",
        {"ask": _ONE_SUBAGENT["ask"], "look": [says("Well, ", PAUSE, "it is ", "done.")]},
        [say("ask")],
        before=_DELEGATING,
        pause_ms=70_000,
        pauses_once=True,
    ),
    # The first answer has no result, and is repaired. A call of the agent's own waits beside it.
    Conversation(
        "a subagent that is an agent of the project, and answers by a schema",
        _ONE_OF_THE_PROJECT,
        [say("ask")],
        side_by_side=True,
        before=_DECLARING,
        decide=decision("approve"),
        execute=execute,
    ),
]
