from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from codelab.aws.calls import Service
from codelab.aws.connections import Connections
from codelab.aws.functions import Functions
from codelab.aws.session import session

from tests.fakes.aws.server import AwsServer
from tests.waiting import PATIENCE

PROXIES = [form(name) for name in ("https_proxy", "all_proxy", "no_proxy") for form in (str.lower, str.upper)]


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_CA_BUNDLE", "AWS_MAX_ATTEMPTS", *PROXIES):
        monkeypatch.delenv(name, raising=False)
    values = {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": "secret", "SESSION_TOKEN": "token"}
    for name, value in {**values, "DEFAULT_REGION": "eu-west-1", "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    session.cache_clear()
    yield
    session.cache_clear()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of a server beside the tests may come late; what is tried again then would be counted."""
    for made in (Connections, Service, Functions):
        monkeypatch.setitem(made.__init__.__kwdefaults__, "read_s", PATIENCE)
    monkeypatch.setattr("codelab.aws.connections.CONNECT_S", PATIENCE)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsServer]:
    """In place of all services."""
    with AwsServer() as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
        yield found


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited before each retry; nobody waits for them."""
    waited: list[float] = []
    monkeypatch.setattr("codelab.aws.calls.time", SimpleNamespace(sleep=waited.append))
    return waited
