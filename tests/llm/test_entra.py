"""Tokens of Microsoft Entra: fetched, kept, replaced, and refused in words that show no secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.entra import EntraToken
from codelab.llm.client.transport import Call
from codelab.llm.errors import InvalidRequest, TransportError
from codelab.llm.failures import FailureKind

from tests.fakes.http import Exchange, HttpServer
from tests.fakes.model.wire import ScriptedServer, failing, saying

SECRET = "s3cret~value"
TENANT, CLIENT = "contoso.example", "11111111-2222-3333-4444-555555555555"


class SignIn:
    """A token endpoint. status: of its answers. valid: the secret that it accepts. The tokens are t1, t2 and so on."""

    def __init__(self) -> None:
        self.status, self.valid, self.given, self.now = 200, SECRET, 0, 1_000.0
        self.forms: list[dict[str, str]] = []
        self.paths: list[str] = []

    def __call__(self, exchange: Exchange) -> None:
        form = {name: value for name, [value] in parse_qs(exchange.content.decode(), strict_parsing=True).items()}
        self.forms.append(form)
        self.paths.append(exchange.path)
        if self.status == 200 and form["client_secret"] == self.valid:
            self.given += 1
            exchange.json({"token_type": "Bearer", "expires_in": 3599, "access_token": f"t{self.given}"})
            return
        words = f"AADSTS7000215: Invalid client secret provided: {form['client_secret']}."
        exchange.json({"error": "invalid_client", "error_description": words}, max(self.status, 401))


@pytest.fixture
def entra() -> SignIn:
    return SignIn()


@pytest.fixture
def server(entra: SignIn) -> Iterator[HttpServer]:
    with HttpServer(entra) as running:
        yield running


def token_of(server: HttpServer, entra: SignIn, secret: Any = lambda: SECRET) -> EntraToken:
    return EntraToken(TENANT, CLIENT, secret, authority=server.url, clock=lambda: entra.now)


def test_a_token_is_asked_for_once_and_kept_until_shortly_before_its_end(server: HttpServer, entra: SignIn) -> None:
    token = token_of(server, entra)
    assert (token(), token()) == ("t1", "t1")
    entra.now += 3_298
    assert token() == "t1"
    entra.now += 2
    assert token() == "t2"
    assert entra.paths == [f"/{TENANT}/oauth2/v2.0/token"] * 2
    assert entra.forms[0] == {
        "grant_type": "client_credentials",
        "client_id": CLIENT,
        "client_secret": SECRET,
        "scope": "https://cognitiveservices.azure.com/.default",
    }
    assert server.connections == 1


def test_while_no_new_token_can_be_had_the_old_one_is_used_to_its_end(server: HttpServer, entra: SignIn) -> None:
    token = token_of(server, entra)
    assert token() == "t1"
    entra.status = 503
    entra.now += 3_400
    assert token() == "t1"
    entra.now += 200
    with pytest.raises(TransportError) as caught:
        token()
    assert (caught.value.kind, caught.value.retryable) == (FailureKind.BUSY, True)


def test_a_refused_application_is_named_with_the_cure_and_without_its_secret(server: HttpServer, entra: SignIn) -> None:
    token = token_of(server, entra, lambda: "wr0ng~secret")
    with pytest.raises(TransportError) as caught:
        token()
    error = caught.value
    assert (error.status, error.kind, error.retryable) == (401, FailureKind.SIGN_IN, False)
    assert "AADSTS7000215" in error.message
    assert "wr0ng" not in error.message + error.body + error.public_message
    assert "LlmEntraClientId" in error.public_message


def test_a_rotated_secret_is_read_again_once(server: HttpServer, entra: SignIn) -> None:
    class Rotated:
        value = "old"

        def __call__(self) -> str:
            return self.value

        def renew(self, refused_value: str) -> bool:
            self.value = SECRET
            return refused_value != SECRET

    assert token_of(server, entra, Rotated())() == "t1"
    assert [form["client_secret"] for form in entra.forms] == ["old", SECRET]


def test_a_token_that_azure_refuses_is_replaced_once_a_minute(server: HttpServer, entra: SignIn) -> None:
    with ScriptedServer(failing(401, "expired"), saying("{}")) as azure:
        transport = DirectTransport(base_url=azure.url, api_key=token_of(server, entra))
        body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        list(transport.send(body, Call()))
        assert [it.headers["authorization"] for it in azure.received] == ["Bearer t1", "Bearer t2"]
        azure.answer(failing(401, "no"))
        with pytest.raises(TransportError):
            list(transport.send(body, Call()))
        assert entra.given == 2
        transport.close()


@pytest.mark.parametrize("answer", [{}, {"access_token": "x"}, {"access_token": "", "expires_in": 5}])
def test_an_answer_without_a_token_is_an_error_that_may_pass(answer: Any) -> None:
    with HttpServer(lambda exchange: exchange.json(answer)) as server:
        with pytest.raises(TransportError, match="no token") as caught:
            token_of(server, SignIn())()
        assert caught.value.retryable


def test_a_sign_in_that_cannot_be_reached_is_named() -> None:
    with HttpServer(lambda exchange: None) as server:
        url = server.url
    token = EntraToken(TENANT, CLIENT, lambda: SECRET, authority=url)
    with pytest.raises(TransportError) as caught:
        token()
    assert (caught.value.kind, caught.value.host) == (FailureKind.UNREACHABLE, "127.0.0.1")


@pytest.mark.parametrize(
    ("authority", "scope"),
    [
        ("https://login.microsoftonline.com", "https://cognitiveservices.azure.com/.default"),
        ("https://login.microsoftonline.us/", "https://cognitiveservices.azure.us/.default"),
        ("https://login.partner.microsoftonline.cn", "https://cognitiveservices.azure.cn/.default"),
    ],
)
def test_the_cloud_decides_what_the_token_is_for(authority: str, scope: str) -> None:
    token = EntraToken(TENANT, CLIENT, lambda: SECRET, authority=authority)
    assert token._fields["scope"] == scope


def test_the_secret_is_not_sent_in_the_open() -> None:
    with pytest.raises(InvalidRequest, match="https"):
        EntraToken(TENANT, CLIENT, lambda: SECRET, authority="http://login.example.com")
