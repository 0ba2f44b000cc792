"""Calls of DynamoDB and Lambda: what goes over the wire, what is retried, and what the errors say."""

import json
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker
from codelab import aws
from codelab.aws import calls
from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import AwsError, AwsRefused, AwsTimeout, AwsUnreachable, ConditionFailed
from codelab.aws.functions import Functions, Returned
from codelab.aws.sdk import client_of
from codelab.aws.signing_keys import SigningKeys

from tests.fakes.aws.calls import scope_of
from tests.fakes.aws.server import AwsServer
from tests.fakes.http import response
from tests.sampling import sampled
from tests.waiting import until

READ: dict[str, Any] = {"TableName": "Table", "Key": {"pk": {"S": "Привет"}}, "ConsistentRead": True}
WRITES: dict[str, Any] = {"TransactItems": [{"Delete": {"TableName": "Table", "Key": {"pk": {"S": "x"}}}}]}
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1"
ARN = "arn:aws:lambda:eu-west-1:123456789012:function:llm"
THROTTLED = response(400, {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException"})


def test_requests_are_those_of_the_sdk(server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "connect")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988;Lineage=a:1 2")
    session = boto3.Session()
    config = Config(user_agent="codelab")
    sdk, sdk_lambda = session.client("dynamodb", config=config), session.client("lambda", config=config)
    table, functions = DynamoDB(), Functions()
    table.get_item(**READ)
    table.transact_write_items(ClientRequestToken="t1", **WRITES)
    functions.start(ARN, {"kind": "step"})
    functions.ask(ARN, {"kind": "step"})
    sdk.get_item(**READ)
    sdk.transact_write_items(ClientRequestToken="t1", **WRITES)
    for kind in ("Event", "RequestResponse"):
        sdk_lambda.invoke(FunctionName=ARN, InvocationType=kind, Payload=b'{"kind": "step"}')  # type: ignore[arg-type]
    ours, theirs = server.received[:4], server.received[4:]
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.method, mine.path) == (other.method, other.path)
        assert mine.body == other.body
        for name in (
            "host",
            "x-amz-target",
            "content-type",
            "x-amz-invocation-type",
            "x-amz-security-token",
            "x-amzn-trace-id",
            "accept-encoding",
        ):
            assert mine.headers.get(name) == other.headers.get(name), name
        assert mine.headers["user-agent"] == "codelab"
        assert scope_of(mine.headers) == scope_of(other.headers)


def test_keys_are_asked_as_the_sdk_asks_them(server: AwsServer) -> None:
    server.answers += [response(200, {"PublicKey": "AQI=", "Signature": "AwQ="})] * 4
    ours, theirs = SigningKeys(), client_of("kms", Config())
    assert (ours.public_key(KEY), ours.sign(KEY, b"text")) == (b"\x01\x02", b"\x03\x04")
    theirs.get_public_key(KeyId=KEY)
    theirs.sign(KeyId=KEY, Message=b"text", MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
    for mine, other in zip(server.received[:2], server.received[2:], strict=True):
        assert (mine.path, mine.body) == (other.path, other.body)
        for name in ("host", "x-amz-target", "content-type"):
            assert mine.headers[name] == other.headers[name]
        assert scope_of(mine.headers) == scope_of(other.headers)


def test_a_transaction_has_one_token_and_one_id_in_all_attempts(server: AwsServer, rests: list[float]) -> None:
    server.answers = [THROTTLED, b""]
    table = DynamoDB()
    table.transact_write_items(**WRITES)
    table.transact_write_items(**WRITES)
    first, second, third, other = (got.body["ClientRequestToken"] for got in server.received)
    assert first == second == third != other
    ids = [got.headers["amz-sdk-invocation-id"] for got in server.received]
    assert len(set(ids[:3])) == 1
    assert ids[3] != ids[0]
    attempts = [got.headers["amz-sdk-request"] for got in server.received]
    assert attempts == ["attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3", "attempt=1; max=3"]


def failing(code: str, status: int = 400) -> bytes:
    return response(status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "so it is"})


FAILURES = {
    "throttled": THROTTLED,
    "capacity": failing("ProvisionedThroughputExceededException"),
    "account": failing("RequestLimitExceeded"),
    "in progress": failing("TransactionInProgressException"),
    "replicas": failing("ReplicatedWriteConflictException"),
    "500": failing("InternalServerError", 500),
    "503": response(503, b"<html><body>Service Unavailable</body></html>"),
    "501": response(501, {}),
    "condition": failing("ConditionalCheckFailedException"),
    "conflict": failing("TransactionConflictException"),
    "cancelled": failing("TransactionCanceledException"),
    "denied": failing("AccessDeniedException"),
    "large": response(413, {"message": "too large"}, {"x-amzn-ErrorType": "RequestTooLargeException"}),
    "redirect": response(307, b"", {"Location": "http://127.0.0.1:1/"}),
    "closed": b"",
    "half": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
    "not http": b"SSH-2.0-OpenSSH\r\n",
}


@pytest.mark.parametrize("name", sampled([*FAILURES]))
def test_what_the_sdk_retries_is_retried_as_often(server: AwsServer, rests: list[float], name: str) -> None:
    """And what the SDK does not, is not; the codes of the errors are the SDK's."""
    server.closes = name in ("half", "not http")
    config = Config(read_timeout=60, retries={"mode": "standard", "total_max_attempts": 3})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
        server.answers = [FAILURES[name]] * 3
        with pytest.raises((ClientError, BotoCoreError)) as theirs:
            boto3.Session().client("dynamodb", config=config).update_item(**{k: READ[k] for k in ("TableName", "Key")})
    attempts = len(server.received)
    server.received.clear()
    server.answers = [FAILURES[name]] * 3
    with pytest.raises(AwsError) as ours:
        DynamoDB().update_item(**READ)
    assert len(server.received) == attempts
    assert len(rests) == attempts - 1
    assert all(0 <= rest <= most for rest, most in zip(rests, (1, 2), strict=False))
    assert isinstance(ours.value, AwsRefused) == isinstance(theirs.value, ClientError)
    if isinstance(ours.value, AwsRefused) and isinstance(theirs.value, ClientError) and name != "large":
        assert ours.value.code == theirs.value.response["Error"]["Code"]
        assert ours.value.status == theirs.value.response["ResponseMetadata"]["HTTPStatusCode"]


def test_throttling_of_lambda_is_retried(server: AwsServer, rests: list[float]) -> None:
    named = {"x-amzn-ErrorType": "TooManyRequestsException:http://internal.amazon.com/coral/"}
    server.answers = [response(429, {"Type": "User", "message": "Rate Exceeded."}, named)] * 2
    Functions().start("llm", {})
    assert len(server.received) == 3


def test_the_codes_that_are_retried_are_the_sdks() -> None:
    sdk = {*ThrottledRetryableChecker._THROTTLED_ERROR_CODES, *TransientRetryableChecker._TRANSIENT_ERROR_CODES}
    assert sdk | {"ReplicatedWriteConflictException"} == calls._RETRIED_CODES
    assert set(TransientRetryableChecker._TRANSIENT_STATUS_CODES) == calls._RETRIED_STATUS


def test_what_fails_once_succeeds(server: AwsServer, rests: list[float]) -> None:
    found = {"Item": {"pk": {"S": "x"}}}
    server.answers = [b"", failing("InternalServerError", 500), response(200, found)]
    assert DynamoDB().get_item(**READ) == found


def test_a_damaged_answer_is_asked_for_again(server: AwsServer, rests: list[float]) -> None:
    good = json.dumps({"Item": {"pk": {"S": "x"}}}).encode()
    bad = good.replace(b"x", b"y")
    checked = {"x-amz-crc32": str(crc32(good))}
    server.answers = [response(200, bad, checked), response(200, b"<html>proxy</html>"), response(200, good, checked)]
    assert DynamoDB().get_item(**READ) == json.loads(good)
    server.answers = [response(200, bad, checked)] * 3
    with pytest.raises(AwsUnreachable):
        DynamoDB().get_item(**READ)


def test_an_answer_in_chunks(server: AwsServer) -> None:
    server.answers = [b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{"\r\n6\r\na": 1}\r\n0\r\n\r\n']
    table = DynamoDB()
    assert table.get_item(**READ) == {"a": 1}
    assert table.get_item(**READ) == {}
    assert [got.connection for got in server.received] == [0, 0]


def test_a_service_that_fails_everything_is_soon_asked_once(server: AwsServer, rests: list[float]) -> None:
    """And three times again when it has answered a while."""
    table = DynamoDB()

    def attempts() -> int:
        server.received.clear()
        server.answers = [failing("InternalServerError", 500)] * 3
        with pytest.raises(AwsRefused):
            table.get_item(**READ)
        server.answers.clear()
        return len(server.received)

    made = [attempts() for _ in range(60)]
    assert made[:50] == [3] * 50
    assert made[50:] == [1] * 10
    for _ in range(10):
        table.get_item(**READ)
    assert attempts() == 3


def test_no_answer_in_time(server: AwsServer, rests: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [None] * 4
    with pytest.raises(AwsTimeout) as error:
        Functions(attempts=1, read_s=0.05).ask("llm", {})
    assert not error.value.never_arrived
    until(lambda: server.received)
    assert len(server.received) == 1, "a function is not asked twice"
    table = DynamoDB()
    monkeypatch.setattr(table._service._connections, "_read_s", 0.05)
    with pytest.raises(AwsTimeout):
        table.get_item(**READ)
    until(lambda: len(server.received) == 4)


def test_an_item_that_failed_the_condition(server: AwsServer) -> None:
    there = {"write_id": {"S": "w1"}}
    kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
    server.answers = [response(400, {"__type": kind, "message": "The conditional request failed", "Item": there})]
    with pytest.raises(ConditionFailed) as error:
        DynamoDB().put_item(TableName="Table", Item={})
    assert error.value.item == there
    assert str(error.value) == "PutItem: ConditionalCheckFailedException: The conditional request failed"


def test_why_a_transaction_was_cancelled(server: AwsServer) -> None:
    kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "failed"}, {}]
    server.answers = [response(400, {"__type": kind, "Message": "cancelled", "CancellationReasons": reasons})]
    with pytest.raises(AwsRefused) as error:
        DynamoDB().transact_write_items(**WRITES)
    assert error.value.reasons == ["None", "ConditionalCheckFailed", "None"]


def test_what_a_function_returned(server: AwsServer) -> None:
    failed = {"errorType": "InvalidRequest", "errorMessage": "no"}
    server.answers = [response(200, {"a": 1}), response(200, failed, {"X-Amz-Function-Error": "Unhandled"})]
    functions = Functions()
    assert functions.ask("llm", {}) == Returned({"a": 1}, failed=False)
    assert functions.ask("llm", {}) == Returned(failed, failed=True)


def test_an_error_of_lambda(server: AwsServer) -> None:
    named = {"x-amzn-ErrorType": "RequestTooLargeException:http://internal.amazon.com/coral/"}
    server.answers = [response(413, {"Type": "User", "message": "6291556 byte payload"}, named)]
    with pytest.raises(AwsRefused) as error:
        Functions().ask("llm", {})
    assert (error.value.code, error.value.status) == ("RequestTooLargeException", 413)


def test_many_threads(server: AwsServer) -> None:
    table, failed = DynamoDB(), []

    def read() -> None:
        for _ in range(20):
            if table.get_item(**READ) != {}:
                failed.append(True)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(server.received) == 160
    assert len({got.connection for got in server.received}) <= 8, "each is used by one thread at a time, and kept"


@pytest.mark.parametrize("minutes", [10, -10, 60 * 24 * 400])
def test_a_clock_that_is_wrong_is_corrected_once(server: AwsServer, rests: list[float], minutes: int) -> None:
    table = DynamoDB()
    now = datetime.now(UTC) + timedelta(minutes=minutes)
    skewed = response(400, {"__type": "x#InvalidSignatureException"}, {"Date": format_datetime(now, usegmt=True)})
    server.answers = [skewed]
    assert table.get_item(**READ) == {}
    first, second = (datetime.strptime(it.headers["x-amz-date"], "%Y%m%dT%H%M%S%z") for it in server.received)
    assert abs(second - now) < timedelta(minutes=3) < abs(first - now)
    assert not rests, "nobody waits for that"
    server.received.clear()
    table.get_item(**READ)
    assert abs(datetime.strptime(server.received[0].headers["x-amz-date"], "%Y%m%dT%H%M%S%z") - now) < timedelta(
        minutes=3
    )


def test_requests_that_were_under_way_with_the_wrong_time_are_all_signed_again(server: AwsServer) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    table = DynamoDB()
    prepared = [table._service.prepared("GetItem", "/", {"X-Amz-Target": "GetItem"}, b"{}") for _ in range(2)]
    for call in prepared:
        server.answers = [response(400, {"__type": "x#InvalidSignatureException"}, {"Date": date})]
        assert call().status == 200
    server.answers = [response(400, {"__type": "x#InvalidSignatureException"})]
    with pytest.raises(AwsRefused):
        table.get_item(**READ)
    assert table.get_item(**READ) == {}
    last = datetime.strptime(server.received[-1].headers["x-amz-date"], "%Y%m%dT%H%M%S%z")
    assert last > datetime.now(UTC) + timedelta(minutes=50), "an answer without a date changes nothing"


@pytest.mark.parametrize("date", ["", "now", "yesterday", "Mon, 99 Foo 2020 00:00:00 GMT"])
def test_a_signature_that_is_wrong_at_the_right_time_is_refused(server: AwsServer, date: str) -> None:
    date = format_datetime(datetime.now(UTC), usegmt=True) if date == "now" else date
    server.answers = [response(400, {"__type": "x#InvalidSignatureException"}, {"Date": date} if date else {})] * 3
    with pytest.raises(AwsRefused) as error:
        DynamoDB().get_item(**READ)
    assert error.value.code == "InvalidSignatureException"
    assert len(server.received) == 1


def test_a_clock_that_is_wrong_each_time_ends_in_its_error(server: AwsServer) -> None:
    """Whoever answers with another date at each attempt does not have us sign for ever."""
    dates = (datetime.now(UTC) + timedelta(days=days) for days in range(1, 40))
    wrong = [
        response(400, {"__type": "x#RequestExpired"}, {"Date": format_datetime(date, usegmt=True)}) for date in dates
    ]
    server.answers = list(wrong)
    with pytest.raises(AwsRefused):
        DynamoDB().get_item(**READ)
    assert len(server.received) <= 3


@pytest.mark.parametrize(("said", "attempts"), [("1", 1), ("5", 5), ("", 3)])
def test_the_environment_says_how_often_a_call_is_made(
    server: AwsServer, rests: list[float], monkeypatch: pytest.MonkeyPatch, said: str, attempts: int
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", said)
    server.answers = [THROTTLED] * 9
    with pytest.raises(AwsRefused):
        DynamoDB().get_item(**READ)
    assert len(server.received) == attempts
    assert server.received[0].headers["amz-sdk-request"] == f"attempt=1; max={attempts}"
    server.received.clear()
    with pytest.raises(AwsRefused):
        Functions(attempts=1).start("llm", {})
    assert len(server.received) == 1, "what must not be repeated is not"


@pytest.mark.parametrize("said", ["0", "-1", "many", "2.5", "٣"])
def test_a_number_of_attempts_that_is_none_is_an_error_at_init(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", said)
    with pytest.raises(ValueError, match="AWS_MAX_ATTEMPTS"):
        DynamoDB()


def test_an_unknown_client_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CLIENT", "botto3")
    with pytest.raises(ValueError, match="AWS_CLIENT"):
        aws.uses_boto3()
