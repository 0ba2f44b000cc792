"""Secrets that are rotated in Secrets Manager are taken by processes that live, without a deployment."""

import json
import time
from collections.abc import Iterator
from typing import Any

import boto3
import jwt
import pytest
from codelab.llm.client.direct import DirectTransport
from codelab.llm.errors import TransportError

from tests.fakes.http import Exchange
from tests.fakes.model.wire import ScriptedServer, saying
from tests.functions import events
from tests.functions.system import JWT_SECRET, Function, System
from tests.functions.template import REGION

NEW = "the new secret, which is long enough for HS256"
ARN = "LlmApiKeySecret"


def keep(system: System, name: str, value: str) -> None:
    """Rotate a secret, or create it."""
    client = boto3.client("secretsmanager", region_name=REGION)
    with system.aws.paused():
        try:
            client.put_secret_value(SecretId=name, SecretString=value)
        except client.exceptions.ResourceNotFoundException:
            client.create_secret(Name=name, SecretString=value)


def token(secret: str) -> str:
    now = int(time.time())
    return jwt.encode({"sub": "ann", "iat": now, "exp": now + 600}, secret, algorithm="HS256")


def test_the_authorizer_takes_the_new_secret_and_no_longer_the_old(system: System) -> None:
    authorize = system.load("authorize")
    keep(system, "JwtSecret", NEW)
    system.aws.reset()
    query = {"session_id": "s1"}
    answer = authorize(events.authorize(query=query, headers={"Authorization": f"Bearer {token(NEW)}"}))
    assert answer["principalId"] == "ann"
    with pytest.raises(Exception, match=r"\AUnauthorized\Z"):
        authorize(events.authorize(query=query, headers={"Authorization": f"Bearer {token(JWT_SECRET)}"}))
    reads = system.aws.calls.count("GetSecretValue")
    assert reads == 1, "one for the rotation, none for the token that is wrong now"
    system.check_permissions()


def test_a_token_of_the_new_secret_prolongs_a_connection(system: System) -> None:
    def refused(secret: str) -> list[str]:
        frame = {"type": "refresh_token", "token": token(secret)}
        system.send_raw("c1", "control", json.dumps(frame))
        return [frame["error_code"] for frame in system.aws.frames("c1") if frame["type"] == "error"]

    system.connect("c1")
    assert refused(JWT_SECRET) == []
    keep(system, "JwtSecret", NEW)
    assert refused(NEW) == []
    assert system.aws.calls.count("GetSecretValue") == 1
    assert refused(JWT_SECRET) == ["UNAUTHORIZED"]
    assert system.aws.calls.count("GetSecretValue") == 0
    system.check_permissions()


# The model's key.


class Provider(ScriptedServer):
    """Answers whoever has the current key."""

    key = "old key"

    def handle(self, exchange: Exchange) -> None:
        if exchange.headers["authorization"] == f"Bearer {self.key}":
            saying('{"a": 1}', usage={"prompt_tokens": 5, "completion_tokens": 3})(exchange)
        else:
            exchange.json({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}, 401)

    @property
    def keys(self) -> list[str]:
        """The keys that were presented."""
        return [it.headers["authorization"].removeprefix("Bearer ") for it in self.received]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(params=["direct", "openai"])
def llm_request(system: System, provider: Provider, request: pytest.FixtureRequest) -> Function:
    keep(system, ARN, provider.key)
    system.transport = DirectTransport
    system.environment = {
        "LLM_PROVIDER": "openai",
        "LLM_CLIENT": request.param,
        "LLM_BASE_URL": provider.url,
        "LLM_API_KEY_SECRET_ARN": ARN,
    }
    return system.load("llm_request")


REQUEST = {
    "kind": "request",
    "context": [{"role": "user", "content": "?"}],
    "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


def test_a_rotated_key_is_read_again_and_the_call_made_once_more(
    system: System, llm_request: Function, provider: Provider
) -> None:
    assert llm_request(dict(REQUEST))["solution"] == {"a": 1}
    provider.key = "new key"
    keep(system, ARN, "new key")
    system.aws.reset()
    answer: dict[str, Any] = llm_request(dict(REQUEST))
    assert (answer["solution"], answer["attempts"]) == ({"a": 1}, 1)
    assert llm_request(dict(REQUEST))["solution"] == {"a": 1}
    assert provider.keys == ["old key", "old key", "new key", "new key"]
    assert system.aws.calls == ["GetSecretValue"]


def test_a_key_that_is_wrong_is_read_again_once_a_minute_and_not_tried_twice(
    system: System, llm_request: Function, provider: Provider
) -> None:
    provider.key = "another key, which nobody has stored"
    system.aws.reset()
    for _ in range(3):
        with pytest.raises(TransportError):
            llm_request(dict(REQUEST))
    assert provider.keys == ["old key"] * 3
    assert system.aws.calls == ["GetSecretValue"]
