"""`.` and `..` are no session ids: an address with one is that of another resource."""

import asyncio
import re

import pytest
from codelab.gateway.identity import SESSION_ID
from codelab.rest.identity import SessionName
from codelab_client.session.address import Address, checked_session_id
from codelab_client.session.errors import InvalidAddress
from codelab_client.session.rest import Rest, RestError
from pydantic import TypeAdapter, ValidationError

from infra.docs import asyncapi
from tests.cases import cases

GOOD = ("a", "-", ":", "_", "...", "....", ".a", "..a", "...a", "a.", "a..", ".-", "..:", "x" * 128, "." * 128)
BAD = (".", "..", "", "a/b", "../a", "./a", "..\n", ".\n", "a b", "%2e%2e", "x" * 129, "ä", "a\0")


@cases("name", GOOD)
def test_ids_with_dots_are_taken_everywhere(name: str) -> None:
    assert SESSION_ID.fullmatch(name)
    assert TypeAdapter(SessionName).validate_python(name) == name
    assert checked_session_id(name) == name


@cases("name", BAD)
def test_the_websocket_refuses_it(name: str) -> None:
    assert not SESSION_ID.fullmatch(name)


@cases("name", BAD)
def test_the_rest_api_refuses_it(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(SessionName).validate_python(name)


@cases("name", BAD)
def test_the_client_refuses_it(name: str) -> None:
    address = Address.parse("ws://localhost:9")
    with pytest.raises(InvalidAddress):
        address.of(name)
    with pytest.raises(RestError, match="is not a session id"):
        asyncio.run(Rest(address, None).history(name, 1))
    with pytest.raises(RestError, match="is not a session id"):
        asyncio.run(Rest(address, None).messages(name))


def test_the_documents_say_so() -> None:
    pattern = asyncapi._QUERY["properties"]["session_id"]["pattern"]
    assert all(re.search(pattern, name) for name in GOOD)
    assert not any(re.search(pattern, name) for name in BAD if not name.endswith("\n"))
