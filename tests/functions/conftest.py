"""Single functions on moto. One event at a time: moto's transactions are not atomic between threads."""

import time
from collections.abc import Iterator

import boto3
import botocore.loaders
import botocore.session
import pytest
from moto import mock_aws

from tests.functions.cheap_moto import cheapen
from tests.functions.recorder import Recorder
from tests.functions.system import JWT_SECRET, System
from tests.functions.template import REGION, Template

#: Keeps the descriptions of the services between tests: reading them is most of the time that a client takes.
LOADER = botocore.loaders.Loader()


@pytest.fixture(scope="session")
def template() -> Template:
    return Template()


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
    monkeypatch.setattr("codelab.wiring.ManagementApi", lambda url: recorder)
    cheapen(monkeypatch)
    with mock_aws():
        session = botocore.session.get_session()
        session.register_component("data_loader", LOADER)
        boto3.setup_default_session(botocore_session=session)
        running = System(monkeypatch, template, recorder)
        running.table.create_table(**template.table())
        s3 = boto3.client("s3", region_name=REGION)
        s3.create_bucket(Bucket="payloads", CreateBucketConfiguration={"LocationConstraint": REGION})
        secrets = boto3.client("secretsmanager", region_name=REGION)
        secrets.create_secret(Name="JwtSecret", SecretString=JWT_SECRET)
        # Clients that the functions make from here on are seen; the test's own are not.
        emitter = session.get_component("event_emitter")
        emitter.register_first("before-call", recorder.before_call)
        emitter.register("after-call", recorder.after_call)
        emitter.register("after-call-error", recorder.after_call)
        yield running
        recorder.settle()
        recorder.check_frames()
        running.check_permissions()
    boto3.DEFAULT_SESSION = None
