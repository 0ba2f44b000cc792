"""The $connect authorizer: who may speak, and what every later event will say of them."""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from codelab.config import ConfigurationError

from tests.cases import cases
from tests.fakes.aws.recorder import READ
from tests.functions import events
from tests.functions.system import JWT_SECRET, Function, System
from tests.processes import run

SESSION = {"session_id": "s1"}


def token(secret: str = JWT_SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    now = int(time.time())
    claims = {"sub": "ann", "iat": now, "exp": now + 3600, **claims}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, secret, algorithm=algorithm)


def bearer(value: str, name: str = "Authorization") -> dict[str, str]:
    return {name: f"Bearer {value}"}


@pytest.fixture
def authorize(system: System) -> Function:
    return system.load("authorize")


def effect(answer: dict[str, Any]) -> str:
    (statement,) = answer["policyDocument"]["Statement"]
    assert statement["Action"] == "execute-api:Invoke"
    found: str = statement["Effect"]
    return found


def assert_unauthorized(function: Function, event: dict[str, Any]) -> None:
    """API Gateway answers 401 to exactly this text, and 500 to any other."""
    with pytest.raises(Exception, match=r"\AUnauthorized\Z"):
        function(event)


CARRIED: dict[str, Callable[[str], dict[str, Any]]] = {
    "header": lambda value: {"headers": bearer(value)},
    "header in small letters": lambda value: {"headers": bearer(value, "authorization")},
    "scheme in small letters": lambda value: {"headers": {"Authorization": f"bearer  {value}"}},
    "subprotocol": lambda value: {"headers": {"Sec-WebSocket-Protocol": f"codelab, token.{value}"}},
    "subprotocol first": lambda value: {"headers": {"sec-websocket-protocol": f"token.{value},codelab"}},
    "query": lambda value: {"query": {**SESSION, "token": value}},
}


@pytest.mark.parametrize("carry", CARRIED.values(), ids=CARRIED)
def test_a_token_is_taken_from_wherever_a_client_can_put_it(authorize: Function, carry: Any) -> None:
    answer = authorize(events.authorize(**{"query": SESSION, **carry(token())}))
    assert effect(answer) == "Allow"
    assert answer["principalId"] == answer["context"]["user"] == "ann"


def test_the_header_wins_over_the_subprotocol_and_that_over_the_query(authorize: Function) -> None:
    protocols = {"Sec-WebSocket-Protocol": f"codelab, token.{token(sub='protocol')}"}
    query = {**SESSION, "token": token(sub="query")}
    answer = authorize(events.authorize(headers={**bearer(token(sub="header")), **protocols}, query=query))
    assert answer["principalId"] == "header"
    assert authorize(events.authorize(headers=protocols, query=query))["principalId"] == "protocol"


def _expired() -> str:
    return token(exp=int(time.time()) - 60)


NOT_GOOD: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "no token": lambda: "not.a.token",
    "very long": lambda: "a" * 5_000,
    "expired": _expired,
    "not yet valid": lambda: token(nbf=int(time.time()) + 3_600),
    "wrong signature": lambda: token(secret="another secret, as long as the first one was"),
    "another algorithm": lambda: token(algorithm="HS512"),
    "algorithm none": lambda: token(secret="", algorithm="none"),
    "signature cut off": lambda: token()[: token().rindex(".") + 1],
    "no end": lambda: token(exp=None),
    "no beginning": lambda: token(iat=None),
    "no subject": lambda: token(sub=None),
    "empty subject": lambda: token(sub=""),
    "subject with #": lambda: token(sub="ann#bob"),
    "subject with a line break": lambda: token(sub="ann\n"),
    "long subject": lambda: token(sub="a" * 129),
}


@cases("make", NOT_GOOD.values(), ids=NOT_GOOD)
def test_a_token_that_is_not_good_is_unauthorized(authorize: Function, make: Any) -> None:
    assert_unauthorized(authorize, events.authorize(query=SESSION, headers=bearer(make())))


def test_without_a_token_nobody_connects(authorize: Function) -> None:
    assert_unauthorized(authorize, events.authorize())
    assert_unauthorized(authorize, events.authorize(headers={"Authorization": f"Basic {token()}"}))
    assert_unauthorized(authorize, events.authorize(headers={"Sec-WebSocket-Protocol": f"codelab, {token()}"}))


def test_a_token_needs_no_issuer_or_audience_unless_they_are_configured(authorize: Function) -> None:
    event = events.authorize(query=SESSION, headers=bearer(token(iss="anyone", aud="anything")))
    assert effect(authorize(event)) == "Allow"


@pytest.mark.parametrize("wrong", [{"iss": "other"}, {"iss": None}, {"aud": "other"}, {"aud": None}], ids=str)
def test_a_configured_issuer_and_audience_must_be_in_the_token(system: System, wrong: dict[str, Any]) -> None:
    system.environment = {"JWT_ISSUER": "https://issuer", "JWT_AUDIENCE": "codelab"}
    function = system.load("authorize")
    good: dict[str, Any] = {"iss": "https://issuer", "aud": "codelab"}
    assert effect(function(events.authorize(query=SESSION, headers=bearer(token(**good))))) == "Allow"
    assert_unauthorized(function, events.authorize(query=SESSION, headers=bearer(token(**(good | wrong)))))


@pytest.mark.parametrize("session", ["s1", "A-Z_a.z:0", "x" * 128, "...", ".a", "..a", "a.."])
def test_a_session_id_of_the_allowed_characters_is_kept(authorize: Function, session: str) -> None:
    answer = authorize(events.authorize(query={"session_id": session}, headers=bearer(token())))
    assert effect(answer) == "Allow"
    assert answer["context"]["session_id"] == session


@cases("session", ["a#b", "a b", "a/b", "сессия", "x" * 129, "a\n", "*", ".", "..", "..\n"])
def test_what_is_no_session_id_is_denied(authorize: Function, session: str) -> None:
    answer = authorize(events.authorize(query={"session_id": session}, headers=bearer(token())))
    assert effect(answer) == "Deny"


@pytest.mark.parametrize("query", [None, {"session_id": ""}])
def test_without_a_session_id_a_new_one_is_made_each_time(authorize: Function, query: dict[str, str] | None) -> None:
    made = [authorize(events.authorize(query=query, headers=bearer(token()))) for _ in range(2)]
    assert [effect(answer) for answer in made] == ["Allow", "Allow"]
    ids = {answer["context"]["session_id"] for answer in made}
    assert len(ids) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_.:-]{20,128}", one) for one in ids)


def test_the_context_says_everything_that_handlers_may_know(authorize: Function) -> None:
    issued = int(time.time())
    expires = issued + 900
    query = {**SESSION, "extensions": "1", "viewer": "1", "profile": "args"}
    answer = authorize(events.authorize(query=query, headers=bearer(token(iat=issued, exp=expires))))
    assert answer["context"] == {
        "user": "ann",
        "session_id": "s1",
        "issued": issued,
        "expires": expires,
        "extensions": True,
        "viewer": True,
        "profile": "args",
    }
    # API Gateway takes strings, numbers and booleans, and nothing nested.
    assert all(isinstance(value, str | int | bool) for value in answer["context"].values())


def test_options_that_were_not_asked_for_are_off(authorize: Function) -> None:
    query = {**SESSION, "extensions": "0", "viewer": "yes", "profile": "other"}
    context = authorize(events.authorize(query=query, headers=bearer(token())))["context"]
    assert (context["extensions"], context["viewer"], context["profile"]) == (False, False, "default")


def test_the_policy_is_for_the_connection_that_asks(authorize: Function) -> None:
    event = events.authorize(query=SESSION, headers=bearer(token()))
    (statement,) = authorize(event)["policyDocument"]["Statement"]
    assert statement["Resource"] == event["methodArn"]


def test_authorizing_reads_one_item_and_that_only_for_a_good_token(system: System) -> None:
    function = system.load("authorize")
    assert system.aws.calls == ["GetSecretValue"], "the secret is read at init, once"
    system.aws.reset()
    assert_unauthorized(function, events.authorize(query=SESSION, headers=bearer(_expired())))
    assert system.aws.calls == []
    function(events.authorize(query=SESSION, headers=bearer(token())))
    assert system.aws.calls == [READ]


def test_a_secret_in_the_environment_needs_no_secrets_manager(system: System) -> None:
    system.environment = {"JWT_SECRET": "a secret of the environment, long enough for HS256"}
    function = system.load("authorize")
    assert system.aws.calls == []
    good = token(secret=system.environment["JWT_SECRET"])
    assert effect(function(events.authorize(query=SESSION, headers=bearer(good)))) == "Allow"
    assert_unauthorized(function, events.authorize(query=SESSION, headers=bearer(token())))


def test_without_any_key_it_does_not_start(system: System) -> None:
    system.environment = {"JWT_SECRET_ARN": ""}
    with pytest.raises(ConfigurationError, match="set JWT_SECRET or JWKS_URL"):
        system.load("authorize")


def test_everyone_is_the_local_user_where_the_local_cloud_says_so(system: System) -> None:
    system.environment = {"AUTH_MODE": "none", "CODELAB_LOCAL": "1"}
    answer = system.load("authorize")(events.authorize(query=SESSION))
    assert system.aws.calls == []
    assert effect(answer) == "Allow"
    assert answer["context"]["user"] == "local"


def test_outside_the_local_cloud_tokens_cannot_be_turned_off(system: System) -> None:
    system.environment = {"AUTH_MODE": "none"}
    with pytest.raises(ConfigurationError, match="AUTH_MODE=none"):
        system.load("authorize")


def test_the_plan_of_the_token_picks_limits(authorize: Function) -> None:
    answer = authorize(events.authorize(query=SESSION, headers=bearer(token(codelab_plan="team"))))
    assert answer["context"]["plan"] == "team"


@pytest.mark.parametrize("plan", [7, ["team"], "x" * 65])
def test_a_plan_that_is_no_name_makes_a_token_invalid(authorize: Function, plan: object) -> None:
    assert_unauthorized(authorize, events.authorize(query=SESSION, headers=bearer(token(codelab_plan=plan))))


_ALONE = """
import json, sys
from codelab.gateway.tokens import token_verifier
verifier = token_verifier()
user = verifier.verify(sys.argv[1]).user if len(sys.argv) > 1 else None
print(json.dumps([user, [name for name in ("cryptography", "pydantic") if name in sys.modules]]))
"""


@pytest.mark.parametrize(
    ("settings", "given", "told"),
    [
        ({"JWT_SECRET": JWT_SECRET}, [token()], ["ann", []]),
        ({"JWKS_URL": "https://login.example.com/keys"}, [], [None, ["cryptography"]]),
    ],
    ids=["shared secret", "published keys"],
)
def test_in_lambda_only_published_keys_cost_the_import_of_cryptography(
    settings: dict[str, str], given: list[str], told: list[Any]
) -> None:
    environment = {"PATH": os.environ["PATH"], "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:1", **settings}
    done = run(sys.executable, "-c", _ALONE, *given, env=environment)
    assert json.loads(done.stdout or "null") == told, done.stderr
