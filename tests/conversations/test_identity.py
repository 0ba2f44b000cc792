"""Tokens and the sessions of other users: the system with real tokens."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from codelab_local import LocalCloud
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.cases import cases
from tests.conftest import CLAIMS, SECRET, TEMPLATE, Open, opener
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.identity.provider import Provider
from tests.waiting import until


@pytest.fixture
def guarded(guarded_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(guarded_cloud)


def token(user: str = "ann", key: str = SECRET, **claims: Any) -> str:
    now = int(time.time())
    body = {"sub": user, "iss": "us", "aud": "ide", "iat": now, "exp": now + 600, **claims}
    return jwt.encode({name: value for name, value in body.items() if value is not None}, key, algorithm="HS256")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        running.new_key("k1")
        yield running


@pytest.fixture(scope="module")
def federated_cloud(model: ScriptedModel, provider: Provider) -> Iterator[LocalCloud]:
    """A cloud whose tokens an identity provider signs."""
    with LocalCloud(TEMPLATE, environment={**model.environment, **CLAIMS, "JWKS_URL": provider.url}) as running:
        yield running


@pytest.fixture
def federated(federated_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(federated_cloud)


def bearing(value: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {value}"}}


def subprotocols() -> dict[str, Any]:
    return {"subprotocols": ["codelab", f"token.{token()}"]}


def test_tokens_are_accepted_in_header_subprotocol_and_query(guarded: Open, model: ScriptedModel) -> None:
    for way in ({"options": bearing(token())}, {"options": subprotocols()}, {"token": token()}):
        assert guarded(**way).ask(model.script("in", Says("Welcome"))) == "Welcome"


def test_the_server_echoes_its_subprotocol_and_never_the_token(guarded: Open) -> None:
    assert guarded(options=subprotocols()).socket.subprotocol == "codelab"


INVALID = {
    "none": "",
    "nonsense": "nonsense",
    "expired": token(exp=int(time.time()) - 10),
    "issuer": token(iss="somebody"),
    "audience": token(aud="somebody"),
    "no audience": token(aud=None),
    "user": token(user="ann#eve"),
    "key": token(key="another secret that is long enough too"),
    "unsigned": jwt.encode({"sub": "ann", "iss": "us", "aud": "ide"}, None, algorithm="none"),
    "tampered": token()[:-3] + "abc",
}


@cases("value", INVALID.values(), ids=INVALID)
def test_invalid_tokens_are_refused(guarded: Open, value: Any) -> None:
    with pytest.raises(InvalidStatus, match="401"):
        guarded(options=bearing(value))


def test_tokens_of_an_identity_provider_and_of_its_next_key_are_accepted(
    federated: Open, provider: Provider, model: ScriptedModel
) -> None:
    good = {"iss": "us", "aud": "ide", "exp": int(time.time()) + 600}
    provider.new_key("k2")
    for kid in ("k1", "k2"):
        opened = federated(options=bearing(provider.token(kid, **good)))
        assert opened.ask(model.script("federated", Says("Welcome"))) == "Welcome"


def _signed_with_the_public_key(provider: Provider, body: dict[str, Any]) -> str:
    """HS256 with the published key as the secret. It is accepted if the token's header chooses the algorithm."""
    public = provider.keys["k1"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = {"alg": "HS256", "typ": "JWT", "kid": "k1"}
    signed = b".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (head, body))
    signature = urlsafe_b64encode(hmac.digest(public, signed, "sha256")).rstrip(b"=")
    return b".".join((signed, signature)).decode()


def _with_its_own_key(_: Provider, body: dict[str, Any]) -> str:
    """Signed with a key that is in the token's own header."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    jwk = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return jwt.encode(body, key, algorithm="RS256", headers={"kid": "k1", "jwk": jwk})


FORGERIES: dict[str, Callable[[Provider, dict[str, Any]], str]] = {
    "the public key for a secret": _signed_with_the_public_key,
    "a key of its own": _with_its_own_key,
    "unsigned": lambda _, body: jwt.encode(body, None, algorithm="none", headers={"kid": "k1"}),
    "an unknown key": lambda provider, body: jwt.encode(body, provider.keys["k1"], "RS256", headers={"kid": "k9"}),
    "a shared secret": lambda _, body: token(**body),
    "expired": lambda provider, body: provider.token("k1", **{**body, "exp": int(time.time()) - 10}),
    "issuer": lambda provider, body: provider.token("k1", **{**body, "iss": "somebody"}),
    "audience": lambda provider, body: provider.token("k1", **{**body, "aud": "somebody"}),
    "tampered": lambda provider, body: provider.token("k1", **body).replace(".", ".e", 1),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_tokens_of_an_identity_provider_are_refused(federated: Open, provider: Provider, forge: Any) -> None:
    body = {"iss": "us", "aud": "ide", "exp": int(time.time()) + 600}
    forged = forge(provider, {"sub": "ann", **body} if forge is not FORGERIES["a shared secret"] else body)
    with pytest.raises(InvalidStatus, match="401"):
        federated(options=bearing(forged))


def test_an_identity_providers_token_is_refused_where_a_secret_is_shared(guarded: Open, provider: Provider) -> None:
    signed = provider.token("k1", iss="us", aud="ide", exp=int(time.time()) + 600)
    with pytest.raises(InvalidStatus, match="401"):
        guarded(options=bearing(signed))


def test_a_bad_session_id_is_refused(guarded: Open) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        guarded("no spaces", options=bearing(token()))


def shape(frame: dict[str, Any]) -> dict[str, Any]:
    """A frame without the fields that must differ: ids, and the user's usage."""
    return {name: value for name, value in frame.items() if name not in ("session_id", "turn_id", "quotas")}


def test_another_users_session_looks_like_a_missing_one(guarded: Open, model: ScriptedModel) -> None:
    """The answers for another user's session and for one that does not exist are the same, except for ids."""
    ann = guarded("private", options=bearing(token("ann")))
    write = call("write_file", path="a", content="b")
    asked = ann.call_for(model.script("secret", Says("The secret", [write]), Says("done")))
    call_id = {"call_id": asked["call_id"]}
    theirs = ann.upload("tool_result", **call_id, result={"success": True})

    def probe(session: str) -> list[dict[str, Any]]:
        eve: Ide = guarded(session, options=bearing(token("eve")))
        piece = {"stdout": "x", "exit_code": None}
        mine = {"path": "mine", "content": "mine"}
        for frame_type, fields, answer in (
            ("hello", {}, "session_info"),
            ("resume", {"last_seq": 0}, "resumed"),
            ("resume", {"last_seq": 3}, "resync_required"),
            ("tool_result", {**call_id, "result": {"success": True}}, "error"),
            ("tool_result", {**call_id, "payload_ref": theirs}, "error"),
            ("hitl_decision", {**call_id, "decision": "approve"}, "error"),
            ("hitl_decision", {**call_id, "decision": "edit", "modified_arguments": mine}, "error"),
            ("tool_result", {**call_id, "result": piece, "partial": True}, "error"),
            ("cancel", {"turn_id": asked["turn_id"]}, None),
            ("session_config", {"title": "Mine"}, "session_info"),
            ("context_update", {"action": "remove_file", "data": {"path": "a"}}, "context_updated"),
        ):
            eve.send(frame_type, **fields)
            if answer is not None:
                eve.expect(answer)
        late: Ide = guarded(session, extensions=True, last_seq=2, options=bearing(token("eve")))
        late.expect("resync_required")
        eve.frames += late.frames
        return [shape(frame) for frame in eve.frames]

    foreign, absent = probe("private"), probe("nobody-has-this")
    assert json.dumps(foreign) == json.dumps(absent)
    assert asked["call_id"] in json.dumps(foreign), "eve sent it herself"
    assert "The secret" not in json.dumps(foreign)
    ann.decide(asked, "reject")
    assert ann.idle() == "The secretdone"


def test_an_expired_connection_is_refused_until_it_is_refreshed(guarded: Open, model: ScriptedModel) -> None:
    expires = int(time.time()) + 8  # enough for the first answer
    session = guarded(options=bearing(token(exp=expires)))
    session.ask(model.script("before", Says("Before")))
    until(lambda: time.time() > expires + 0.1)
    session.say(model.script("after", Says("After")))
    assert session.expect("error")["error_code"] == "SESSION_EXPIRED"
    for wrong in (token("eve"), token(key="another secret that is long enough too")):
        session.send("refresh_token", token=wrong)
        assert session.expect("error")["error_code"] == "UNAUTHORIZED"
    session.send("refresh_token", token=token())
    session.expect("session_info")
    assert session.ask("[[after]]") == "BeforeAfter"


def test_the_ninth_connection_replaces_the_oldest(guarded: Open, model: ScriptedModel) -> None:
    connections = [guarded("crowded", options=bearing(token())) for _ in range(9)]
    assert connections[0].expect("error")["error_code"] == "RATE_LIMITED"
    with pytest.raises(ConnectionClosed):
        connections[0].receive()
    connections[8].say(model.script("room", Says("Room for eight")))
    for connection in connections[1:]:
        assert connection.idle() == "Room for eight"


def test_a_revoked_user_is_disconnected_and_needs_a_new_token(
    guarded_cloud: LocalCloud, guarded: Open, model: ScriptedModel
) -> None:
    ours, others = guarded("mine", options=bearing(token("rob"))), guarded("mine", options=bearing(token("ida")))
    for connection, name in ((ours, "rob"), (others, "ida")):
        connection.ask(model.script(f"hello {name}", Says(f"Hello {name}")))
    old = token("rob")
    said = guarded_cloud.invoke("sweep", {"kind": "revoke", "user": "rob"})
    assert (said["sessions"], said["connections"], said["complete"]) == (1, 1, True)
    with pytest.raises(ConnectionClosed):
        ours.receive()
    with pytest.raises(InvalidStatus, match="401"):
        guarded("mine", options=bearing(old))
    until(lambda: int(time.time()) > said["revoked_at"])
    again = guarded("mine", options=bearing(token("rob")))
    again.ask(model.script("rob again", Says("Welcome back")))
    others.ask(model.script("ida again", Says("Still here")))
    assert (again.text(), others.text()) == ("Welcome back", "Hello idaStill here")


@pytest.mark.deep
def test_an_expired_connection_gets_nothing_and_is_closed(guarded: Open, model: ScriptedModel) -> None:
    expires = int(time.time()) + 5
    stale, fresh = guarded("shared", options=bearing(token(exp=expires))), guarded("shared", options=bearing(token()))
    until(lambda: time.time() > expires + 0.1)
    fresh.ask(model.script("the secret", Says("The secret")))
    with pytest.raises(ConnectionClosed):
        stale.receive(timeout=120)
    assert stale.frames == []
    assert fresh.text() == "The secret"
