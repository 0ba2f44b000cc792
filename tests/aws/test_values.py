"""What is stored is what the SDK's serializer stores."""

from enum import Enum, IntEnum, StrEnum
from types import SimpleNamespace
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers(-(10**38) + 1, 10**38 - 1) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(st.dictionaries(st.text(), VALUES))
def test_values_are_stored_as_by_the_sdk_and_come_back(values: dict[str, Any]) -> None:
    stored = to_dynamodb(values)
    sdk = TypeSerializer()
    assert stored == {name: sdk.serialize(value) for name, value in values.items()}
    assert [*stored] == [*values]
    assert from_dynamodb(stored) == values == {name: TypeDeserializer().deserialize(it) for name, it in stored.items()}


class Level(int, Enum):
    """Its `str` is its name."""

    HIGH = 2


def test_kinds_of_strings_integers_and_lists() -> None:
    assert to_dynamodb({"level": Level.HIGH}) == {"level": {"N": "2"}}
    name, number = StrEnum("Name", {"a": "b"}).a, IntEnum("Number", {"one": 1}).one
    stored = to_dynamodb({"name": name, "number": number, "pair": ("a", 1)})
    assert stored == {"name": {"S": "b"}, "number": {"N": "1"}, "pair": {"L": [{"S": "a"}, {"N": "1"}]}}


@pytest.mark.parametrize("value", [1.5, {1}, b"x", SimpleNamespace()])
def test_what_is_not_stored(value: Any) -> None:
    with pytest.raises(TypeError):
        to_dynamodb({"list": [value]})
