"""Single functions on moto. One event at a time: moto's transactions are not atomic between threads."""

import functools
import time
import types
from collections.abc import Iterator

import boto3
import botocore.session
import pytest
from codelab import aws
from codelab.aws.session import session
from moto import mock_aws

from tests.fakes.aws.calls import SEND
from tests.fakes.aws.cheap_moto import cheapen
from tests.fakes.aws.new_stack import NewStack
from tests.fakes.aws.recorder import Recorder
from tests.functions.system import JWT_SECRET, System
from tests.functions.template import REGION, Template


class Sdk:
    """What of the SDK a process keeps between tests, for it takes longer to make than most tests to run: a session that
    tells `recorder` of the calls that its clients make, and clients of the tests' own, whose calls nobody sees."""

    def __init__(self) -> None:
        session = botocore.session.get_session()
        self.session = boto3.Session(region_name=REGION, botocore_session=session)
        self.own = {name: self.session.client(name) for name in ("dynamodb", "s3", "secretsmanager")}
        self.botocore_session = session
        self.recorder = Recorder()
        emitter = session.get_component("event_emitter")
        emitter.register("provide-client-params", lambda **call: self.recorder.ask_for(**call))
        emitter.register_first("before-call", lambda **call: self.recorder.before_call(**call))
        emitter.register("after-call", lambda **call: self.recorder.after_call(**call))
        emitter.register("after-call-error", lambda **call: self.recorder.after_call(**call))


sdk = functools.cache(Sdk)


@pytest.fixture(scope="session")
def template() -> Template:
    return Template()


@functools.cache
def new_stack(template: Template) -> NewStack:
    return NewStack(REGION, template.table(), "payloads", {"JwtSecret": JWT_SECRET})


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's clock begins with a minute: quotas count by it."""
    real, ahead = time.time_ns, -time.time_ns() % 60_000_000_000
    monkeypatch.setattr("codelab.engine.engine.time.time_ns", lambda: real() + ahead)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, template: Template) -> Iterator[System]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    # A silent model is watched every 250 ms; how often that happens in a test would be a matter of chance.
    monkeypatch.setattr("codelab.delivery.stream.WATCH_S", 60.0)
    recorder = Recorder()
    for client in ("ManagementApi", "Boto3ManagementApi"):
        monkeypatch.setattr(f"codelab.wiring.{client}", lambda url: recorder)
    cheapen(monkeypatch)
    with mock_aws():
        kept = sdk()
        kept.recorder = recorder
        monkeypatch.setattr("boto3.DEFAULT_SESSION", kept.session)
        monkeypatch.setattr("codelab.aws.sdk.session", lambda: kept.botocore_session)
        monkeypatch.setattr(SEND, lambda _connections, request, on_wait=None: recorder.send(request))
        monkeypatch.setattr("codelab.aws.calls.time", types.SimpleNamespace(sleep=lambda _seconds: None))
        for made in (
            session, aws.dynamodb_client, aws.lambda_client, aws.secrets_client, aws.signing_keys_client,
            aws.waiting_lambda_client,
        ):  # fmt: skip
            made.cache_clear()
        running = System(monkeypatch, template, recorder, kept.own["dynamodb"])
        new_stack(template).make(kept.own)
        yield running
        recorder.settle()
        recorder.check_frames()
        running.check_permissions()


@pytest.fixture
def connected(system: System) -> System:
    """With a window: the connection c1 to Ann's session s1."""
    system.connect("c1")
    return system


@pytest.fixture
def extended(system: System) -> System:
    """The same, and the window knows extensions."""
    system.connect("c1", extensions=True)
    return system
