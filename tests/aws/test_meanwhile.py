"""Work that is done while a call is under way."""

import pytest
from codelab.aws.dynamodb import DynamoDB
from codelab.aws.meanwhile import Meanwhile

from tests.aws.server import Server
from tests.waiting import until


def test_work_is_done_once_when_the_next_request_was_sent(server: Server) -> None:
    table, found = DynamoDB(), []

    def look() -> int:
        until(lambda: bool(server.received))
        found.append(len(server.received))
        table.get_item(TableName="Table", Key={"of": "the work"})  # it may call AWS itself
        return 7

    with Meanwhile(look) as work:
        table.get_item(TableName="Table", Key={})
        assert found == [1]
        table.get_item(TableName="Table", Key={})
    table.get_item(TableName="Table", Key={})
    assert (work(), work(), found, len(server.received)) == (7, 7, [1], 4)


def test_work_that_no_call_has_done_is_done_when_its_result_is_asked_for(server: Server) -> None:
    found: list[int] = []
    with Meanwhile(lambda: found.append(1)) as work:
        pass
    DynamoDB().get_item(TableName="Table", Key={})
    assert found == []
    work()
    assert found == [1]


def test_work_that_fails_does_not_fail_the_call(server: Server) -> None:
    with Meanwhile(lambda: 1 // 0) as work:
        assert DynamoDB().get_item(TableName="Table", Key={}) == {}
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            work()
