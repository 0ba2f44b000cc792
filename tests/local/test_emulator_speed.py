"""The faster functions of the emulator's DynamoDB give what the slower ones give."""

import asyncio
import copy
import json
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from codelab_local import LocalCloud
from codelab_local.emulator.speed import Message, deep_copy, speed_up, straight_to_dynamodb
from hypothesis import given
from hypothesis import strategies as st

from tests.local.conftest import APP

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=20)
EXPRESSIONS = [
    "attribute_not_exists(pk) OR (#n < :n AND size(l[0].m) >= :m)",
    "SET #a = if_not_exists(#a, :zero) + :one, b.c[2] = :list REMOVE d ADD e :one",
    "a = AND b",
    "",
]


@pytest.fixture(scope="module")
def dynamodb() -> Any:
    """The emulator's module. Its import starts a thread, which processes that are forked after the collection lack."""
    from ministack.services import dynamodb

    return dynamodb


def containers(value: Any) -> set[int]:
    """The identities of all dictionaries and lists in a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = {id(value)} if isinstance(value, dict | list) else set()
    return own.union(*map(containers, inside))


def test_numbers_are_measured_and_checked_as_before(dynamodb: Any) -> None:
    fast: Any = SimpleNamespace(**vars(dynamodb))
    speed_up(fast)
    for text in ["0", "-12.50", "1E125", "1e200", "1" * 39, "", "x", 7, True, 1.0, None, ["1"]] * 2:
        assert fast._number_error(text) == dynamodb._number_error(text)
        assert fast._number_size_bytes(text) == dynamodb._number_size_bytes(text)


@given(VALUES)
def test_a_copy_is_equal_and_shares_nothing_that_can_change(value: Any) -> None:
    copied = deep_copy(value)
    assert repr(copied) == repr(value)
    assert not containers(copied) & containers(value)


def test_other_objects_are_copied_as_before() -> None:
    value = defaultdict(dict, {"items": {"a": {1, 2}}})
    copied = deep_copy({"table": value})["table"]
    assert (copied, copied.default_factory) == (value, dict)
    assert copied["items"]["a"] is not value["items"]["a"]


def test_expressions_are_read_as_before(dynamodb: Any) -> None:
    fast: Any = SimpleNamespace(**vars(dynamodb))
    speed_up(fast)
    assert fast.copy.deepcopy is not copy.deepcopy
    for expression in EXPRESSIONS * 2:
        slot = "ConditionExpression"
        tokens = fast._tokenize(expression)
        assert tokens == dynamodb._tokenize(expression)
        tokens.clear()  # a caller may change what it gets
        expected = dynamodb._condition_syntax_error(expression, slot)
        assert fast._condition_syntax_error(expression, slot) == expected


def test_an_answer_has_what_clients_check(cloud: LocalCloud) -> None:
    client = cloud.client("dynamodb")
    first, second = (client.list_tables() for _ in range(2))
    told = first["ResponseMetadata"]
    assert told["HTTPHeaders"]["content-type"] == "application/x-amz-json-1.0"
    assert int(told["HTTPHeaders"]["x-amz-crc32"]) == crc32(json.dumps({"TableNames": first["TableNames"]}).encode())
    assert told["RequestId"] != second["ResponseMetadata"]["RequestId"]


def test_an_error_has_its_status_and_code(cloud: LocalCloud) -> None:
    client = cloud.client("dynamodb")
    with pytest.raises(client.exceptions.ResourceNotFoundException) as refused:
        client.get_item(TableName="no-such-table", Key={"pk": {"S": "a"}})
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_failure_of_the_emulator_is_an_error_of_the_server() -> None:
    sent: list[Message] = []

    async def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"x-amz-target", b"DynamoDB_20120810.GetItem")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    asyncio.run(straight_to_dynamodb(fail, SimpleNamespace(handle_request=fail))(scope, receive, send))
    assert (sent[0]["status"], json.loads(sent[1]["body"])["__type"]) == (500, "InternalServerError")


@pytest.fixture(params=["patched", pytest.param("plain", marks=pytest.mark.deep)])
def either(request: pytest.FixtureRequest) -> Iterator[LocalCloud]:
    if request.param == "patched":
        yield request.getfixturevalue("cloud")
        return
    with LocalCloud(APP / "small.yaml", environment={"LOCAL_PLAIN_EMULATOR": "1"}) as plain:
        yield plain


def test_a_transaction_makes_each_update_once_and_counts_what_it_costs(either: LocalCloud) -> None:
    client = either.client("dynamodb")
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "of")]
    client.create_table(
        TableName="updated",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=attributes,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_of",
                "KeySchema": [{"AttributeName": "of", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )

    def add(pk: str, condition: str) -> dict[str, Any]:
        return {
            "TableName": "updated",
            "Key": {"pk": {"S": pk}},
            "UpdateExpression": "SET n = if_not_exists(n, :one) + :one, #of = :of REMOVE gone",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#of": "of"},
            "ExpressionAttributeValues": {":one": {"N": "1"}, ":of": {"S": "ann"}},
        }

    def write(*updates: dict[str, Any], **asked: Any) -> Any:
        return client.transact_write_items(TransactItems=[{"Update": update} for update in updates], **asked)

    def items() -> list[Any]:
        found = client.scan(TableName="updated")["Items"]
        return sorted((item["pk"]["S"], item["n"]["N"], item["of"]["S"]) for item in found)

    new, there = "attribute_not_exists(pk)", "attribute_exists(pk)"
    told = write(add("a", new), add("b", new), ReturnConsumedCapacity="INDEXES")
    assert told["ConsumedCapacity"][0]["GlobalSecondaryIndexes"]["by_of"]["CapacityUnits"] == 2
    assert items() == [("a", "2", "ann"), ("b", "2", "ann")]
    assert "ConsumedCapacity" not in write(add("a", there))
    with pytest.raises(client.exceptions.TransactionCanceledException):
        write(add("a", there), add("b", new))
    for _ in range(2):
        client.update_item(**add("b", there))
    assert items() == [("a", "3", "ann"), ("b", "4", "ann")]
