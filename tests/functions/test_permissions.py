"""What each function may do is what it does: every permission of the template is used here, or listed with its reason.

The other direction is checked after every test of this folder (`System.check_permissions`).
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
import pytest

from tests.fakes.aws.recorder import POST
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import Context, System
from tests.functions.template import REGION
from tests.functions.test_authorize import bearer, token
from tests.functions.test_payloads import upload
from tests.functions.test_sweep import Died, die
from tests.permissions import grants
from tests.quotas import USUAL

#: Milliseconds after which a lease has ended.
LATER = 40_000
LARGE = "x = 1\n" * 30_000
WRITTEN = {"path": "a.py", "content": LARGE}
READ_A = call("read_file", path="a.py")
WRITE, WRITE_MUCH = call("write_file", path="a.py", content="x = 1"), call("write_file", **WRITTEN)

#: What no test sees, by function: the action, and who needs it.
ELSEWHERE: dict[str, dict[str, str]] = {
    "llm_request": {
        "bedrock:InvokeModel": "Bedrock, which no emulator has; the openai SDK calls it by HTTP",
        "bedrock:InvokeModelWithResponseStream": "the same",
        "bedrock:CallWithBearerToken": "the token by which the SDK calls Bedrock",
    },
    "rest_stream": dict.fromkeys(
        (
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:UpdateItem",
            "s3:GetObject",
            "secretsmanager:GetSecretValue",
        ),
        "a web server; tests/rest plays it on the local cloud",
    ),
    "page": {},  # it may nothing; tests/infra/test_page.py plays it
    "webhook": {
        "secretsmanager:GetSecretValue": "tests/functions/test_webhook.py, which calls it as CloudWatch does",
        **dict.fromkeys(
            ("kms:GetPublicKey", "kms:Sign", "dynamodb:Query", "dynamodb:DeleteItem"),
            "tests/functions/test_push.py, which does the same",
        ),
    },
    "rest_api": {"kms:GetPublicKey": "tests/functions/test_push.py, which has a key"},
}
#: What Lambda itself does with a function's role: it delivers the record of a failed invocation.
BY_LAMBDA = {
    ("llm_request", "lambda:InvokeFunction", "${SweepFunction.Arn}"),
    ("control", "sqs:SendMessage", "${FailedInvocations.Arn}"),
    ("sweep", "sqs:SendMessage", "${FailedInvocations.Arn}"),
}


@pytest.fixture
def limited(system: System) -> System:
    """With quotas: a turn has a slot."""
    system.environment = dict(USUAL)
    return system


def asked(system: System, connection: str, session: str, *calls: dict[str, Any], **caller: Any) -> str:
    """A new session in which the model has called a tool. Returns the call's id."""
    system.connect(connection, session, extensions=True, **caller)
    system.model.says("Well.", *calls)
    system.send(connection, "user_message", content="hello", client_msg_id="m0")
    system.run_step()
    (call_id,) = system.item("REGISTER", session)["calls"]
    return str(call_id)


def given_up(system: System, connection: str = "c1", session: str = "s1") -> tuple[str, str]:
    """A session of which the next event, after `LATER` ms, posts a large frame again and gives the step up.

    Returns the id of its call, and the reference of its result.
    """
    call_id = asked(system, connection, session, WRITE_MUCH)
    system.aws.once(POST, die)
    with pytest.raises(Died):
        system.send(connection, "hitl_decision", call_id=call_id, decision="approve")
    reference = upload(system, connection, "tool_result", call_id=call_id, result={"content": LARGE})
    system.send(connection, "tool_result", call_id=call_id, payload_ref=reference)
    for attempt in range(3):
        step = dies(system)
        if attempt < 2:
            system.report_failure(step)
    return call_id, reference


def abandoned(system: System, connection: str, session: str) -> None:
    """A session whose step has no owner any more after `LATER` ms."""
    system.connect(connection, session, extensions=True)
    system.send(connection, "user_message", content="hello", client_msg_id="m0")
    dies(system)


def dies(system: System) -> dict[str, Any]:
    """The process of the step that was invoked last dies. Returns what had invoked it."""
    system.model.answers.append(broken())
    _, step = system.aws.last_invoke
    with pytest.raises(Died):
        system.run_step()
    return step


def broken() -> Iterator[str]:
    die()
    yield ""


def later(system: System, folder: str) -> None:
    system.function(folder).clock_ms = LATER


def comes(system: System, connection: str) -> None:
    """A connection that has sent a frame, so it may execute calls."""
    system.connect(connection, extensions=True)
    system.send_raw(connection, "control", '{"type": "hello"}')


def by_reference(system: System, connection: str, frame_type: str, **fields: Any) -> None:
    named = {name: fields[name] for name in ("call_id",) if name in fields}
    reference = upload(system, connection, frame_type, **fields)
    folder = "control" if frame_type == "hello" else frame_type
    system.send_raw(connection, folder, json.dumps({"type": frame_type, "payload_ref": reference, **named}))


def store_secret(system: System, name: str) -> None:
    with system.aws.paused():
        boto3.client("secretsmanager", region_name=REGION).create_secret(Name=name, SecretString="sk-1")


def behind_an_edge(system: System) -> None:
    store_secret(system, "EdgeSecret")
    system.environment["EDGE_SECRET_ARN"] = "EdgeSecret"


# -- what has each function do all that it may do ----------------------------------------------------------------------


def authorize(system: System) -> None:
    behind_an_edge(system)
    through = {"x-codelab-edge": "sk-1"}
    system.function("authorize")(events.authorize(query={"session_id": "s1"}, headers={**bearer(token()), **through}))


def connect(system: System) -> None:
    for n in range(12):  # more than a session may have
        system.connect(f"d{n}", "crowded")
    misses = {"queryStringParameters": {"last_seq": "1"}}
    system.function("connect")({**events.connect("m1", events.authorizer_context("s3")), **misses})
    given_up(system)
    abandoned(system, "o1", "s2")
    later(system, "connect")
    system.connect("c2", "s1", extensions=True)
    system.connect("o2", "s2")


def disconnect(system: System) -> None:
    system.environment["MAX_STEPS"] = "2"
    call_id = asked(system, "c1", "s1", WRITE_MUCH)
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    comes(system, "c2")
    system.disconnect("c1")  # hands its call over
    system.disconnect("c2", status=1009)  # its result was too large: the next step
    comes(system, "c3")
    system.model.says("Again.", READ_A)
    system.run_step()
    system.disconnect("c3", status=1009)  # the turn is out of steps


def unknown_message(system: System) -> None:
    system.connect("c1", expires=1)
    # Whether the token has expired is looked up for types that are known, however they come here.
    system.send_raw("c1", "unknown_message", '{"type": "ping"}')


def user_message(system: System) -> None:
    given_up(system)
    abandoned(system, "o1", "s2")
    system.connect("n1", "s3")
    attached = {"type": "text", "content": LARGE}
    by_reference(system, "n1", "user_message", content="Are you there?", attachments=[attached])
    later(system, "user_message")
    system.send("c1", "user_message", content="hello", client_msg_id="m0")
    system.send("o1", "user_message", content="hello", client_msg_id="m0")


def tool_result(system: System) -> None:
    call_id, reference = given_up(system)
    later(system, "tool_result")
    system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)


def hitl_decision(system: System) -> None:
    call_id, _ = given_up(system)
    edited = asked(system, "e1", "s2", WRITE)
    changed = {"path": "a.py", "content": LARGE}
    by_reference(system, "e1", "hitl_decision", call_id=edited, decision="edit", modified_arguments=changed)
    system.send("r1", "hitl_decision", call_id=asked(system, "r1", "s3", WRITE), decision="reject")
    later(system, "hitl_decision")
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve")


def context_update(system: System) -> None:
    given_up(system)
    abandoned(system, "o1", "s2")
    system.connect("n1", "s3", extensions=True)
    by_reference(system, "n1", "context_update", action="add_file", data={"path": "b.py", "content": "x = 2"})
    later(system, "context_update")
    for connection in ("c1", "o1"):
        system.send(connection, "context_update", action="add_file", data={"path": "a.py", "content": "x = 1"})


def switch_agent(system: System) -> None:
    given_up(system)
    system.connect("n1", "s3", extensions=True)
    by_reference(system, "n1", "switch_agent", agent_type="coder", content="hello")
    later(system, "switch_agent")
    system.send("c1", "switch_agent", agent_type="coder")


def control(system: System) -> None:
    system.connect("n1", "s3", extensions=True)
    system.send_raw("n1", "control", json.dumps({"type": "refresh_token", "token": token()}))
    own = {"name": "ide.deploy", "description": "Deploys the project."}
    by_reference(system, "n1", "hello", capabilities={"tools": [own]})
    system.connect("w1", "s4", extensions=True)
    system.model.says("", *(call("write_file", path=f"{n}", content="x" * 20_000) for n in range(3)))
    system.send("w1", "user_message", content="hello")
    system.run_step()
    system.send_raw("w1", "control", '{"type": "hello"}')  # its calls are too much for one frame
    given_up(system)
    abandoned(system, "o1", "s2")
    later(system, "control")
    for connection in ("c1", "o1"):
        system.send_raw(connection, "control", '{"type": "hello"}')


def rest_api(system: System) -> None:
    comes(system, "c1")
    behind_an_edge(system)
    http = partial(system.http, headers={"x-codelab-edge": "sk-1"})
    wanted = {"session_id": "s1", "tool_name": "write_file", "arguments": WRITTEN}
    http("POST", "/tools/execute", query="wait=0", body={**wanted, "call_id": "k1"})
    system.send("c1", "hitl_decision", call_id="k1", decision="approve", remember={"scope": "user"})
    http("POST", "/tools/execute", query="wait=0", body={**wanted, "call_id": "k2"})  # relies on the rule
    http("GET", "/sessions")
    upload(system, "c1", "tool_result", call_id="k1", result={"content": LARGE})
    system.connect("n1", "s2")
    http("POST", "/chat/message", body={"session_id": "s2", "message": "hello"})
    http("POST", "/sessions/s1/fork", body={})
    http("DELETE", "/sessions/s1")


def llm_request(system: System) -> None:
    store_secret(system, "LlmApiKeySecret")
    system.environment |= {"LLM_PROVIDER": "openai", "LLM_API_KEY_SECRET_ARN": "LlmApiKeySecret"}
    call_id = asked(system, "c1", "s1", WRITE_MUCH)
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve", remember={"scope": "user"})
    asked(system, "c2", "s2", WRITE_MUCH)  # relies on the rule
    system.connect("c3", "s3")
    system.send("c3", "user_message", content="one")
    system.send("c3", "user_message", content="two")  # begins when the first is answered, in another invocation
    system.model.says("One.")
    system.run_step(Context(20_000))
    system.model.says("Two.")
    system.run_step()


def sweep(system: System) -> None:
    system.environment["SESSION_RETENTION_DAYS"] = "30"
    given_up(system)
    system.connect("n1", "s3", expires=1)
    upload(system, "c1", "tool_result", call_id="x", result={"content": LARGE})
    system.sweep(later_s=60)
    system.http("DELETE", "/sessions/s1", Context(1_000))
    system.sweep(later_s=400)
    system.function("sweep")({"kind": "revoke", "user": "ann"}, Context())


SCENARIOS: dict[str, Callable[[System], None]] = {
    scenario.__name__: scenario
    for scenario in (
        authorize, connect, disconnect, unknown_message, user_message, tool_result, hitl_decision, context_update,
        switch_agent, control, rest_api, llm_request, sweep,
    )
}  # fmt: skip


@pytest.mark.parametrize("folder", SCENARIOS)
def test_a_function_uses_all_that_it_may_do(folder: str, limited: System) -> None:
    SCENARIOS[folder](limited)
    used = {(action, resource) for who, action, resource in limited.aws.used if who == folder}
    unseen = {
        (action, resource)
        for action, resource in grants()[folder] - used
        if action not in ELSEWHERE.get(folder, {}) and (folder, action, resource) not in BY_LAMBDA
    }
    assert unseen == set()


def test_every_function_is_played_or_listed() -> None:
    assert SCENARIOS.keys() | ELSEWHERE.keys() == grants().keys()


def test_what_is_listed_is_granted() -> None:
    for folder, actions in ELSEWHERE.items():
        assert actions.keys() <= {action for action, _ in grants()[folder]}, folder
    for folder, action, resource in BY_LAMBDA:
        assert (action, resource) in grants()[folder], folder
