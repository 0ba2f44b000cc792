"""What `cheap_moto` replaces in moto does as DynamoDB does."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.functions.system import System

EVERY_TYPE: dict[str, Any] = {
    "text": {"S": "ü"},
    "number": {"N": "1.50"},
    "bytes": {"B": b"\x00\xff"},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "blobs": {"BS": [b"\x00", b"\x01"]},
    "map": {"M": {"inner": {"L": [{"S": ""}, {"M": {}}]}}},
    "list": {"L": [{"N": "1"}, {"M": {"deep": {"BOOL": False}}}]},
    "nothing": {"NULL": True},
    "yes": {"BOOL": True},
    "no": {"BOOL": False},
}


def key(sk: str) -> dict[str, Any]:
    return {"pk": {"S": "P"}, "sk": {"S": sk}}


def update(sk: str) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": "Table",
            "Key": key(sk),
            "UpdateExpression": "SET #list = list_append(if_not_exists(#list, :none), :more) ADD #count :one",
            "ExpressionAttributeNames": {"#list": "list", "#count": "count"},
            "ExpressionAttributeValues": {":none": {"L": []}, ":more": {"L": [{"N": "2"}]}, ":one": {"N": "1"}},
        }
    }


@pytest.mark.parametrize("fails", [True, False])
def test_a_transaction_changes_all_or_nothing(system: System, fails: bool) -> None:
    for sk in ("changed", "deleted", "replaced"):
        system.table.put_item(TableName="Table", Item={**key(sk), "list": {"L": [{"N": "1"}]}, "count": {"N": "1"}})
    before = system.table.scan(TableName="Table")["Items"]
    condition = "attribute_exists(pk)" if fails else "attribute_not_exists(pk)"
    parts = [
        update("changed"),
        update("made"),
        {"Delete": {"TableName": "Table", "Key": key("deleted")}},
        {"Put": {"TableName": "Table", "Item": key("replaced")}},
        {"Put": {"TableName": "Table", "Item": key("new")}},
        {"ConditionCheck": {"TableName": "Table", "Key": key("none"), "ConditionExpression": condition}},
    ]
    if fails:
        with pytest.raises(ClientError, match="TransactionCanceledException"):
            system.table.transact_write_items(TransactItems=parts)
        assert system.table.scan(TableName="Table")["Items"] == before
        return
    system.table.transact_write_items(TransactItems=parts)
    after = {item.pop("sk")["S"]: item for item in system.table.scan(TableName="Table")["Items"]}
    assert after.keys() == {"changed", "made", "replaced", "new"}
    assert after["changed"] == {"pk": {"S": "P"}, "list": {"L": [{"N": "1"}, {"N": "2"}]}, "count": {"N": "2"}}
    assert after["replaced"] == {"pk": {"S": "P"}}


def test_an_attribute_of_every_type_is_read_as_it_was_written(system: System) -> None:
    item = {**key("all"), **EVERY_TYPE}
    system.table.put_item(TableName="Table", Item=item)
    assert system.table.get_item(TableName="Table", Key=key("all"))["Item"] == item


@pytest.mark.parametrize(
    "expression",
    [
        "SET #a = :one SET #b = :one",
        "REMOVE #a REMOVE #b",
        "SET #a = :one, #a = :one",
        "SET #a = :one REMOVE #a",
        "SET #a = #b + :one",
        "SET #pk = :one",
        "ADD #text :one",
        "SET #a.#b = :one",
        "SET #a = :none",
    ],
)
def test_an_update_that_is_wrong_is_refused(system: System, expression: str) -> None:
    item = {**key("one"), "text": {"S": "x"}}
    system.table.put_item(TableName="Table", Item=item)
    names = {f"#{name}": name for name in ("a", "b", "pk", "text") if f"#{name}" in expression}
    values = {":one": {"N": "1"}} if ":one" in expression else {}
    with pytest.raises(ClientError, match="ValidationException"):
        system.table.update_item(
            TableName="Table",
            Key=key("one"),
            UpdateExpression=expression,
            ExpressionAttributeNames=names,
            **({"ExpressionAttributeValues": values} if values else {}),
        )
    assert system.table.get_item(TableName="Table", Key=key("one"))["Item"] == item


def test_an_item_that_grows_beyond_400_kb_is_refused(system: System) -> None:
    def set_one(name: str) -> None:
        system.table.update_item(
            TableName="Table",
            Key=key("large"),
            UpdateExpression="SET #name = :text",
            ExpressionAttributeNames={"#name": name},
            ExpressionAttributeValues={":text": {"S": "ü" * 70_000}},
        )

    for name in "ab":
        set_one(name)
    with pytest.raises(ClientError, match="size"):
        set_one("c")


CONDITION = "(attribute_exists(#name) AND #name IN (:one, :two)) OR size(#name) BETWEEN :low AND :high"


def guarded(name: str, **values: Any) -> dict[str, Any]:
    """A put that counts on an attribute of what it replaces."""
    return {
        "TableName": "Table",
        "Item": {**key("one"), "text": {"S": "abc"}, "other": {"S": "a longer text"}},
        "ConditionExpression": CONDITION,
        "ExpressionAttributeNames": {"#name": name},
        "ExpressionAttributeValues": {f":{value}": it for value, it in values.items()},
    }


def test_the_same_condition_with_other_names_and_values_is_another(system: System) -> None:
    def outcome(name: str, one: str, low: int = 100) -> str:
        values = {"one": {"S": one}, "two": {"S": "-"}, "low": {"N": str(low)}, "high": {"N": "200"}}
        try:
            system.table.put_item(**guarded(name, **values))
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "put"

    system.table.put_item(TableName="Table", Item=guarded("text")["Item"])
    assert outcome("text", "abc") == "put"
    assert outcome("text", "abd") == outcome("other", "abc") == "ConditionalCheckFailedException"
    assert outcome("text", "abc") == outcome("text", "-", low=3) == "put"


def test_a_condition_without_one_of_its_values_is_wrong_also_when_it_is_known(system: System) -> None:
    values = {"one": {"S": "abc"}, "two": {"S": "-"}, "low": {"N": "1"}, "high": {"N": "2"}}
    system.table.put_item(TableName="Table", Item=guarded("text")["Item"])
    system.table.put_item(**guarded("text", **values))
    del values["two"]
    with pytest.raises(KeyError, match=":two"):
        system.table.put_item(**guarded("text", **values))
