"""A user's browsers are told, by Web Push, that the agent waits: by the user's wish, and with nothing in it."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import jwt
import pytest
from codelab import public_post, push, vapid
from codelab.sessions.push_subscription import LIFE_S, MOST
from codelab.vapid import Vapid, application_server_key, raw_signature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cases import cases
from tests.certificates import make_certificate
from tests.fakes.push_service import PushService, verified
from tests.functions.system import Context, Function, System
from tests.functions.template import REGION
from tests.functions.test_metrics import WRITE
from tests.functions.test_rotated_secrets import keep
from tests.functions.test_webhook import event, line, notices

HOSTS = "fcm.googleapis.com,updates.push.services.mozilla.com,web.push.apple.com,*.notify.windows.com"
PAGE = "https://page.example.com/"
FCM = "https://fcm.googleapis.com/fcm/send/"


# -- who pushes (RFC 8292) ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def private() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def der(private: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(serialization.Encoding.DER, form)


def test_a_token_is_what_the_rfc_says(private: ec.EllipticCurvePrivateKey) -> None:
    now, signed = int(time.time()), 0

    def sign(text: bytes) -> bytes:
        nonlocal signed
        signed += 1
        return private.sign(text, ec.ECDSA(hashes.SHA256()))

    clock = [float(now)]
    identity = Vapid(der(private), sign, "https://page.example.com", lambda: clock[0])
    for endpoint, audience in {
        f"{FCM}a:b": "https://fcm.googleapis.com",
        "https://push.example.com:8443/x?y=z": "https://push.example.com:8443",
    }.items():
        header = identity.authorization(endpoint)
        claims, key = verified(header)
        assert claims == {"aud": audience, "exp": now + 12 * 3600, "sub": "https://page.example.com"}
        assert jwt.get_unverified_header(header.split()[1][2:-1]) == {"typ": "JWT", "alg": "ES256"}
        assert key == identity.key == application_server_key(der(private))
        point = base64.urlsafe_b64decode(key + "=")
        assert (len(point), point[0]) == (65, 4)
        assert identity.authorization(f"{endpoint}/other") == header, "one token serves a push service"
    assert signed == 2
    clock[0] += 10 * 3600
    identity.authorization(FCM)
    assert signed == 2
    clock[0] += 1.5 * 3600
    assert verified(identity.authorization(FCM))[0]["exp"] == int(clock[0]) + 12 * 3600
    assert signed == 3


def test_each_signature_is_of_64_bytes(private: ec.EllipticCurvePrivateKey) -> None:
    """Numbers with zeros in front, and with the highest bit, have other sizes as DER."""
    for r, s in ((1, 2**256 - 1), (2**255, 2**248 - 1), (0x7F, 0x80)):
        encoded = [number.to_bytes((number.bit_length() // 8) + 1) for number in (r, s)]
        body = b"".join(bytes([2, len(one)]) + one for one in encoded)
        assert raw_signature(bytes([0x30, len(body)]) + body) == r.to_bytes(32) + s.to_bytes(32)


@cases(
    "wrong", [b"", b"0", b"\x30\x00", b"\x30\x06\x02\x01\x01\x03\x01\x01", b"\x30\x08\x02\x01\x01\x02\x01\x01\x02\x00"]
)
def test_what_is_no_signature_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"P-256|number|sequence"):
        raw_signature(wrong)


def test_a_key_of_another_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="P-256"):
        application_server_key(der(ec.generate_private_key(ec.SECP384R1())))


# -- which addresses are asked -----------------------------------------------------------------------------------------


@cases(
    "endpoint",
    [
        f"{FCM}dQ1x:APA91bH_z-9",
        "https://fcm.googleapis.com:443/fcm/send/x",
        "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABl",
        "https://web.push.apple.com/QGuQyavXutnMH_",
        "https://wns2-par02p.notify.windows.com/w/?token=BQYAAAC%2bX%3d%3d",
    ],
)
def test_addresses_of_browsers_are_known(endpoint: str) -> None:
    assert push.is_known(endpoint, HOSTS)


HOSTILE = [
    *("", "x", "https://", "https:///", "//fcm.googleapis.com/x", "fcm.googleapis.com/x"),
    *(
        "http://fcm.googleapis.com/x",
        "HTTPS://fcm.googleapis.com/x",
        "ftp://fcm.googleapis.com/x",
        "file:///etc/passwd",
    ),
    *("https://169.254.169.254/latest/meta-data/", "https://127.0.0.1/x", "https://[::1]/x", "https://localhost/x"),
    *("https://2130706433/x", "https://0x7f000001/x", "https://10.0.0.1/x", "https://metadata.google.internal/x"),
    *("https://evil.example.com/x", "https://fcm.googleapis.com.evil.example/x", "https://xfcm.googleapis.com/x"),
    *("https://fcm.googleapis.com@evil.example/x", "https://evil.example@fcm.googleapis.com/x"),
    *("https://evil.example/fcm.googleapis.com", "https://evil.example?fcm.googleapis.com/x"),
    *("https://evil.example#fcm.googleapis.com/x", "https://evil.example\\@fcm.googleapis.com/x"),
    *("https://fcm.googleapis.com:22/x", "https://fcm.googleapis.com:8443/x", "https://fcm.googleapis.com./x"),
    *("https://notify.windows.com/x", "https://.notify.windows.com/x", "https://a..notify.windows.com/x"),
    *("https://evilnotify.windows.com/x", "https://*.notify.windows.com/x", "https://fcm.googleapis.com"),
    *(
        "https://fcm.googleapis.com/x y",
        "https://fcm.googleapis.com/x\r\nHost: evil.example",
        "https://fcm.googleapis.com/\n",
    ),
    *("https://fcm.googleapis.com/x#y", "https://fcm.googleapis.com/\u00e9", "https://fcm.googleapis\u3002com/x"),
    *("https://\u0444cm.googleapis.com/x", "https://fcm.googleapis.com/x\x00", " https://fcm.googleapis.com/x"),
    f"{FCM}{'x' * 2_000}",
]


@cases("endpoint", HOSTILE)
def test_other_addresses_are_not(endpoint: str) -> None:
    assert not push.is_known(endpoint, HOSTS)


@cases("hosts", ["", ",", "*.", " , ", "googleapis.com", "*.fcm.googleapis.com"])
def test_who_names_no_service_allows_none(hosts: str) -> None:
    assert not push.is_known(f"{FCM}x", hosts)


# -- what a browser asks the server ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def service(authority: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PushService]:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "cert.pem"))
    with PushService(authority) as running:
        yield running


@pytest.fixture
def pushing(system: System, service: PushService, monkeypatch: pytest.MonkeyPatch) -> System:
    """A stack with WebPush, for which this machine's own addresses are public ones."""
    monkeypatch.setattr(public_post, "is_public", lambda _: True)
    with system.aws.paused():
        made = boto3.client("kms", region_name=REGION).create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")
    system.environment = {
        "WEB_PUSH_KEY": made["KeyMetadata"]["Arn"],
        "WEB_PUSH_HOSTS": f"{HOSTS},{service.host}",
        "WEBHOOK_EVENTS": "approval_requested",
        "PAGE_URL": PAGE,
        "LOG_LEVEL": "ERROR",
    }
    service.key = system.http("GET", "/push")[1]["application_server_key"]
    return system


def subscribe(system: System, endpoint: str, user: str = "ann") -> tuple[int, Any]:
    return system.http("PUT", "/push/subscriptions", user=user, body={"endpoint": endpoint})


def stored(system: System) -> list[str]:
    """Whose subscriptions there are."""
    return [pk for pk, _ in system.all_keys() if pk.startswith("PUSH#")]


def test_a_server_that_does_not_push_says_so_and_stores_nothing(system: System) -> None:
    assert system.http("GET", "/push") == (200, {"application_server_key": None})
    status, answer = subscribe(system, f"{FCM}a")
    assert (status, answer["error"]["code"]) == (403, "PERMISSION_DENIED")
    assert system.answer("DELETE", f"/push/subscriptions/{'0' * 32}")["statusCode"] == 200
    assert set(system.aws.calls) <= {"GetItem"}, "it looks for revocations only"
    assert stored(system) == []


def test_a_subscription_is_added_renewed_and_removed(pushing: System) -> None:
    before = int(time.time())
    status, added = subscribe(pushing, f"{FCM}a")
    assert status == 200
    assert subscribe(pushing, f"{FCM}a")[1]["id"] == added["id"]
    assert subscribe(pushing, f"{FCM}a", user="bob")[1]["id"] == added["id"]
    assert stored(pushing) == ["PUSH#ann", "PUSH#bob"]
    item = pushing.table.get_item(
        TableName="Table", Key={"pk": {"S": "PUSH#ann"}, "sk": {"S": f"SUBSCRIPTION#{added['id']}"}}
    )["Item"]
    assert item.keys() == {"pk", "sk", "endpoint", "at", "ttl"}
    assert abs(int(item["ttl"]["N"]) - before - LIFE_S) < 3_600
    for _ in range(2):
        assert pushing.answer("DELETE", f"/push/subscriptions/{added['id']}")["statusCode"] == 200
    assert stored(pushing) == ["PUSH#bob"]
    pushing.check_permissions()


def test_the_oldest_of_too_many_makes_room(pushing: System) -> None:
    for n in range(MOST + 3):
        pushing.function("rest_api").clock_ms = n * 1000
        assert subscribe(pushing, f"{FCM}{n}")[0] == 200
    found = push.subscriptions().of("ann", int(time.time() * 1000))
    assert [one.endpoint for one in found] == [f"{FCM}{n}" for n in range(MOST + 2, 2, -1)]


def test_an_address_of_no_push_service_is_refused(pushing: System) -> None:
    for endpoint in HOSTILE:
        status, answer = subscribe(pushing, endpoint)
        assert status == 422, endpoint
        assert answer["error"]["code"] == "INVALID_ARGUMENTS"
    bodies: list[Any] = [{}, {"endpoint": None}, {"endpoint": 1}, [], "x"]
    for body in bodies:
        assert pushing.http("PUT", "/push/subscriptions", body=body)[0] in (400, 422)
    for name in ("x", "..", "%23", "0" * 31):
        assert pushing.answer("DELETE", f"/push/subscriptions/{name}")["statusCode"] in (404, 422)
    assert stored(pushing) == []


@cases(
    "method, path", [("GET", "/push"), ("PUT", "/push/subscriptions"), ("DELETE", f"/push/subscriptions/{'0' * 32}")]
)
def test_without_a_token_nobody_is_answered(pushing: System, method: str, path: str) -> None:
    assert pushing.http(method, path, user="", body={"endpoint": f"{FCM}a"})[0] == 401


def test_a_revoked_user_is_not_told_any_more(pushing: System) -> None:
    for n in range(3):
        subscribe(pushing, f"{FCM}{n}")
    subscribe(pushing, f"{FCM}b", user="bob")
    pushing.function("sweep")({"kind": "revoke", "user": "ann"}, Context())
    assert stored(pushing) == ["PUSH#bob"]
    pushing.check_permissions()


# -- what a push service is asked --------------------------------------------------------------------------------------


@pytest.fixture
def tells(pushing: System) -> Function:
    return pushing.load("webhook")


def test_a_call_that_waits_is_told_to_its_users_browsers_and_to_no_others(
    pushing: System, service: PushService, caplog: pytest.LogCaptureFixture
) -> None:
    for name, user in (("phone", "ann"), ("desk", "ann"), ("other", "bob")):
        subscribe(pushing, service.endpoint(name), user)
    pushing.connect("c1", extensions=True)
    pushing.ask("c1", "The word is xyzzy.", WRITE)
    written = notices(caplog)
    pushing.aws.reset()
    pushing.load("webhook")(event(*map(json.dumps, written)))
    assert sorted(service.pushed) == ["/push/desk", "/push/phone"]
    for exchange in service.received:
        assert exchange.content == b""
        claims, _ = verified(exchange.headers["authorization"])
        # What it says in base64 says it too; a signature and a key are random, and may look like any short word.
        said = str([{**exchange.headers, "authorization": claims}])
        assert not any(word in said for word in ("xyzzy", "ann", "s1", "write_file"))
        assert (exchange.headers["ttl"], exchange.headers["urgency"], exchange.headers["topic"]) == (
            "86400",
            "high",
            "codelab",
        )
    assert sorted(pushing.aws.calls) == ["GetPublicKey", "Query", "Sign"], "one signature for one push service"
    pushing.check_permissions()


def test_a_batch_is_one_push_a_browser(tells: Function, pushing: System, service: PushService) -> None:
    subscribe(pushing, service.endpoint("a"))
    tells(event(line(), line(session_id="s2"), line("turn_ended"), line(user="bob")))
    assert service.pushed == ["/push/a"]
    tells(event(line("turn_ended"), line("turn_failed")))
    assert service.pushed == ["/push/a"]
    tells(event(line()))
    assert service.pushed == ["/push/a"] * 2


def test_a_subscription_that_has_ended_is_removed_and_others_are_told(
    tells: Function, pushing: System, service: PushService, caplog: pytest.LogCaptureFixture
) -> None:
    service.ended, service.unknown, service.busy, service.moved = {"gone"}, {"unknown"}, {"busy"}, {"moved"}
    for name in ("gone", "unknown", "busy", "moved", "fine"):
        subscribe(pushing, service.endpoint(name))
    pushing.environment["LOG_LEVEL"] = "WARNING"
    pushing.load("webhook")(event(line()))
    assert sorted(service.answers) == [201, 307, 404, 410, 429]
    assert service.pushed == ["/push/fine"], "no redirect is followed"
    left = {one.endpoint.rpartition("/")[2] for one in push.subscriptions().of("ann", int(time.time() * 1000))}
    assert left == {"busy", "moved", "fine"}
    refusals = [record for record in caplog.records if record.message == "pushes refused"]
    assert [record.reasons for record in refusals] == [["it answered with 307", "it answered with 429"]]  # type: ignore[attr-defined]
    assert service.host not in caplog.text, "an endpoint is a secret"
    pushing.check_permissions()


def test_a_service_that_is_not_there_harms_nobody(
    pushing: System, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(pushing, service.endpoint("a"))
    monkeypatch.setattr(public_post, "is_public", lambda _: False)
    pushing.load("webhook")(event(line()))
    assert service.received == [], "nothing is said to a private network"
    pushing.aws.refuse("Query", 400, "ValidationException")
    pushing.load("webhook")(event(line()))
    pushing.aws.refuse("Sign", 400, "AccessDeniedException")
    pushing.load("webhook")(event(line()))
    assert service.received == []


def test_a_service_that_the_operator_allows_no_more_is_not_asked(pushing: System, service: PushService) -> None:
    subscribe(pushing, service.endpoint("a"))
    pushing.environment["WEB_PUSH_HOSTS"] = HOSTS
    pushing.load("webhook")(event(line()))
    assert service.received == []


def test_a_subscription_ends_before_dynamodb_deletes_it(pushing: System, service: PushService) -> None:
    pushing.function("rest_api").clock_ms = -1000 * (LIFE_S + 60)
    subscribe(pushing, service.endpoint("a"))
    assert stored(pushing) == ["PUSH#ann"]
    pushing.load("webhook")(event(line()))
    assert service.received == []


def test_the_push_service_of_these_tests_refuses_what_the_documents_forbid(
    pushing: System, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(pushing, service.endpoint("a"))
    tells = pushing.load("webhook")

    def answered(body: bytes = b"", **changed: Any) -> int:
        real = public_post.post

        def changing(url: str, headers: dict[str, str], _: bytes, patience_s: float) -> int:
            return real(url, {**headers, **changed}, body, patience_s)

        with monkeypatch.context() as patched:
            patched.setattr(public_post, "post", changing)
            tells(event(line()))
        return service.answers[-1]

    assert answered() == 201
    assert answered(b"x" * 4097) == 413
    assert answered(TTL="") == 400
    assert answered(Topic="x" * 33) == 400
    assert answered(Urgency="now") == 400
    assert answered(Authorization="Bearer x") == 401
    with monkeypatch.context() as patched:
        patched.setattr(vapid, "LIFE_S", 25 * 3600)
        push.identity.cache_clear()
        assert answered() == 403
        patched.setattr(vapid, "LIFE_S", -60)
        push.identity.cache_clear()
        assert answered() == 401
    push.identity.cache_clear()
    service.key = "another"
    assert answered() == 403


def test_a_webhook_and_browsers_are_each_told_their_own(
    pushing: System, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr("codelab.webhook.post", lambda url, key, body: told.extend(json.loads(body)["notices"]))
    keep(pushing, "WebhookSecret", json.dumps({"url": "https://x.example.com/", "key": "k"}))
    pushing.environment |= {"WEBHOOK_SECRET_ARN": "WebhookSecret", "WEBHOOK_EVENTS": "turn_failed"}
    subscribe(pushing, service.endpoint("a"))
    pushing.load("webhook")(event(line(), line("turn_failed")))
    assert [notice["kind"] for notice in told] == ["turn_failed"]
    assert service.pushed == ["/push/a"]
    pushing.load("webhook")(event(line()))
    assert len(told) == 1
