"""`codelab conformance` has no complaint about the system."""

from codelab_client.conformance.command import judge
from codelab_client.conformance.dialogues import WITHOUT_MODEL, Subject
from codelab_client.session.address import Address

from tests.protocol.conformance.conftest import Server


async def test_dialogues_without_the_model_keep_the_rules(server: Server) -> None:
    report = await judge(Subject(Address.parse(server.websocket), server.token), WITHOUT_MODEL)
    assert not report.complaints, report.text()
    assert report.kept_rules == {"valid-frames", "introduces-itself", "answers-requests", "refuses", "names-the-call"}
