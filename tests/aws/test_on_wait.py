"""Work that is done while a call is under way."""

from collections.abc import Callable

import pytest
from codelab.aws.dynamodb import DynamoDB
from codelab.engine.prepared_invoke import PreparedInvoke

from tests.fakes.aws.server import AwsServer
from tests.waiting import until

THROTTLED = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 33\r\n\r\n{"__type": "ThrottlingException"}'


def test_an_invoke_is_prepared_once_when_the_commit_before_it_was_sent(server: AwsServer) -> None:
    table, received = DynamoDB(), list[int]()

    def prepare() -> Callable[[], object]:
        until(lambda: bool(server.received))
        received.append(len(server.received))
        table.get_item(TableName="Table", Key={"of": "the work"})  # it may call AWS itself
        return lambda: received.append(len(server.received))

    invoke = PreparedInvoke(prepare)
    table.transact_write_items(TransactItems=[], on_wait=invoke.prepare)
    assert received == [1]
    table.get_item(TableName="Table", Key={})
    invoke.start()
    assert received == [1, 3]


def test_an_invoke_is_prepared_once_although_the_commit_is_repeated(server: AwsServer) -> None:
    server.answers = [THROTTLED]
    prepared: list[int] = []

    def prepare() -> Callable[[], object]:
        prepared.append(len(server.received))
        return lambda: None

    DynamoDB().transact_write_items(TransactItems=[], on_wait=PreparedInvoke(prepare).prepare)
    assert len(server.received) == 2
    assert len(prepared) == 1


def test_an_invoke_that_no_call_has_prepared_is_prepared_when_it_starts() -> None:
    steps: list[str] = []

    def prepare() -> Callable[[], object]:
        steps.append("prepared")
        return lambda: steps.append("started")

    invoke = PreparedInvoke(prepare)
    assert steps == []
    invoke.start()
    assert steps == ["prepared", "started"]


def test_an_invoke_that_cannot_be_prepared_fails_when_it_starts_and_not_the_commit(server: AwsServer) -> None:
    invoke = PreparedInvoke(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert DynamoDB().transact_write_items(TransactItems=[], on_wait=invoke.prepare) == {}
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            invoke.start()
