"""Reading a growing log without gaps, whatever a single read sees."""

from typing import Any, cast

from codelab.delivery.payloads import Payloads
from codelab.protocol.outgoing import Status
from codelab.rest.log import LogReader
from codelab.sessions.items import Audience, EventItem, Reference
from codelab.sessions.register import Phase, Register
from codelab.sessions.store import SessionStore

NOW = 1_000_000


class Log:
    """A fake store. `hidden` are frames that a read misses although it sees later ones."""

    def __init__(self) -> None:
        self.register = Register("ann", "s1", NOW, "universal", turn_id="t1")
        self.frames: dict[int, EventItem] = {}
        self.hidden: set[int] = set()
        self.reads: list[int] = []
        self.asked = 0

    def tokens(self, count: int) -> None:
        for _ in range(count):
            self.token()

    def add(self, frame: dict[str, Any], *, known: bool = True, **fields: Any) -> None:
        seq = len(self.frames) + 1
        item = EventItem(seq, {**frame, "seq": seq}, fields.pop("audience", Audience.ALL), ttl=NOW, **fields)
        self.frames[seq] = item
        if known:
            self.register.last_seq = seq

    def token(self, text: str = "x", *, known: bool = True) -> None:
        self.add({"type": "assistant_message", "token": text, "content": text, "is_final": False}, known=known)

    def events(self, _pk: str, first: int, last: int, _now: int) -> list[EventItem]:
        self.reads.append(last - first + 1)
        return [self.frames[seq] for seq in range(first, last + 1) if seq in self.frames and seq not in self.hidden]

    def read(self, _pk: str) -> Register | None:
        self.asked += 1
        return self.register

    def log_end(self, _pk: str, known: int) -> int:
        return max([known, *self.frames])

    def url(self, _user: str, _session: str, digest: str) -> str:
        return f"https://bucket/{digest}"


def reader(log: Log, seq: int = 0) -> LogReader:
    return LogReader(cast(SessionStore, log), cast(Payloads, log), log.register.copy(), seq)


def events(following: LogReader) -> list[tuple[int, dict[str, Any]]]:
    found = []
    while following.is_behind:
        found += following.read(NOW)
    return found


def drain(following: LogReader) -> list[int]:
    return [seq for seq, _ in events(following)]


def test_a_reader_that_is_behind_reads_growing_batches() -> None:
    log = Log()
    log.tokens(300)
    following = reader(log)
    assert drain(following) == list(range(1, 301))
    assert log.reads == [1, 4, 16, 64, 100, 100, 100]
    assert not following.is_behind


def test_a_frame_missed_by_one_read_is_not_skipped() -> None:
    log = Log()
    log.tokens(10)
    log.hidden = {3}
    following = reader(log)
    assert drain(following) == [1, 2], "the third was being written while the fourth was read"
    log.hidden = set()
    following.is_behind = True
    assert drain(following) == list(range(3, 11))


def test_streamed_frames_are_found_before_the_register_has_them() -> None:
    log = Log()
    log.token(known=False)
    assert drain(reader(log)) == [1]


def test_expired_frames_need_a_resync() -> None:
    log = Log()
    log.tokens(5)
    log.hidden = {1, 2, 3, 4, 5}
    following = reader(log)
    assert following.read(NOW) == [(5, {"type": "resync_required", "last_seq": 5})]
    assert following.seq == 5
    log.token("new")
    following.is_behind = True
    assert drain(following) == [6]


def test_a_reader_ahead_of_the_log_begins_at_its_end() -> None:
    log = Log()
    log.token()
    following = reader(log, seq=9)
    assert following.beyond() == [(1, {"type": "resync_required", "last_seq": 1})]
    assert reader(log, seq=1).beyond() == []


def test_polling_a_quiet_session_is_cheap() -> None:
    log = Log()
    following = reader(log)
    following.read(NOW)
    assert (log.asked, following.is_busy, following.is_over) == (1, False, True)
    for second in range(1, 10):
        following.read(NOW + 1_000 * second)
    assert log.asked == 1
    following.read(NOW + 10_000)
    assert log.asked == 2
    assert set(log.reads) == {1}


def test_a_turn_is_over_when_no_queued_turn_follows() -> None:
    log = Log()
    log.register.phase, log.register.status = Phase.RUNNING, Status.THINKING
    following = reader(log)
    following.read(NOW)
    assert (following.is_busy, following.is_over) == (True, False)
    log.add({"type": "turn_end", "turn_id": "t1", "reason": "completed", "usage": {}})
    following.is_behind = True
    ((_, done),) = following.read(NOW + 1)
    assert (next(iter(done)), done["type"], done["reason"]) == ("type", "done", "completed")
    following.read(NOW + 2)
    assert not following.is_over, "a message that waited has begun the next turn"
    log.register.phase = Phase.IDLE
    following.read(NOW + 2_000)
    assert following.is_over


def test_a_session_being_deleted_is_gone() -> None:
    log = Log()
    log.register.erase_at = NOW
    following = reader(log)
    following.read(NOW)
    assert following.is_gone


def test_events_use_the_seed_documents_names() -> None:
    log = Log()
    log.token("Создаю")
    log.add(
        {"type": "tool_call", "call_id": "c1", "tool_name": "read_file", "arguments": {}, "requires_approval": False},
        audience=Audience.EXECUTOR,
    )
    log.add({"type": "error", "content": "no", "message": "no"})
    log.add({"type": "tool_call", "call_id": "c2"}, payload=Reference("abc", 200_000))
    token, shown, error, large = (event for _, event in events(reader(log)))
    assert token == {"type": "token", "content": "Создаю", "is_final": False, "seq": 1}
    assert (shown["arguments"], shown["execute"]) == ({}, False)
    assert (error["type"], error["content"]) == ("error", "no")
    assert (large["payload_url"], large["payload_bytes"]) == ("https://bucket/abc", 200_000)
