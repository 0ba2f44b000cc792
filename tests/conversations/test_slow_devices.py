"""A session's connection that does not read: the others are not delayed, and it misses nothing."""

import json
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from codelab_local import LocalCloud
from websockets.sync.client import connect

from tests.conftest import Open
from tests.conversations.table import Table
from tests.fakes.ide.follower import Follower
from tests.fakes.ide.ide import text_of
from tests.fakes.ide.received import Received
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.local.test_quotas import flood
from tests.waiting import PATIENCE

#: Sizes of frames that fill a connection's buffer completely.
FLOOD = (100_000, 100)


class Sleeper:
    """A connection that does not read, so that API Gateway answers every post to it with 429."""

    def __init__(self, cloud: Any, session: str) -> None:
        url = cloud.url(session, extensions=1)
        # Without pings, whose answers it would not read: the client closes the connection 20 s after one.
        options: dict[str, Any] = {"ping_interval": None, "open_timeout": PATIENCE, "close_timeout": 0.1}
        connecting = connect(url, max_queue=1, max_size=None, **options)
        self.socket = connecting.__enter__()
        management = cloud.client("apigatewaymanagementapi", config=Config(retries={"total_max_attempts": 1}))
        newest = _newest_connection(cloud, session)
        for size in FLOOD:
            with pytest.raises(ClientError) as refused:
                flood(management, newest, json.dumps("x" * size).encode())
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
        self._received = Received()

    def wake_and_resume(self) -> list[dict[str, Any]]:
        """Read everything and request what is missing. Returns the logged frames."""
        self._ask("ping", "pong")
        self._ask("resume", "resumed", last_seq=self._received.last_seq)
        return self._received.frames

    def _ask(self, frame_type: str, answer: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": frame_type, **fields}))
        while all(reply["type"] != answer for reply in self._received.replies):
            frame = json.loads(self.socket.recv(timeout=PATIENCE))
            if isinstance(frame, dict):  # Not one that filled the buffer.
                self._received.take(frame)


def _newest_connection(cloud: Any, session: str) -> str:
    register = Table(cloud).register(session)
    connections = [name for name in register if name.startswith("conn#")]
    newest: str = max(connections, key=lambda name: int(register[name]["generation"]["N"]))
    return newest.removeprefix("conn#")


def test_a_connection_that_does_not_read_delays_no_other(cloud: LocalCloud, ide: Open, model: ScriptedModel) -> None:
    """The other connection gets text, calls and the end while this one does not read."""
    reader = ide("beside-a-sleeper", extensions=True)
    sleeper = Sleeper(cloud, "beside-a-sleeper")
    text = "word by word " * 40
    answers = Says(text, [call("read_file", path="a.py")], delay=0.005), Says(text, delay=0.005)
    said = reader.converse(model.script("beside a sleeper", *answers), lambda _: {"content": "x"})
    assert said == text * 2
    seqs = [frame["seq"] for frame in reader.frames]
    assert seqs == list(range(1, len(seqs) + 1)), "in order and without a gap"
    frames = sleeper.wake_and_resume()
    assert [frame["seq"] for frame in frames][: len(seqs)] == seqs
    assert text_of(frames) == text * 2


@pytest.mark.deep
def test_a_turn_continues_while_its_only_connection_does_not_read(cloud: LocalCloud, model: ScriptedModel) -> None:
    sleeper = Sleeper(cloud, "asleep")
    text = "nobody listens " * 30
    marker = model.script("asleep", Says(text, delay=0.005))
    sleeper.socket.send(json.dumps({"type": "user_message", "content": marker}))
    late = Follower(cloud.url("asleep", extensions=1))
    late.read_to("turn_end", patience=0.5)
    assert text_of(late.frames) == text
    late.close()
    assert text_of(sleeper.wake_and_resume()) == text
