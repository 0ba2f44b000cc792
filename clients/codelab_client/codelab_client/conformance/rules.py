"""The rules that a server keeps, with their sources."""

from codelab_client.judge.rules import Rule

_EDIT = "docs/protocol.md#a-call-that-the-user-edits"
_FRAMES, _CALLS, _DELIVERY = "docs/protocol.md#frames", "docs/protocol.md#calls", "docs/protocol.md#delivery"
RULES: dict[str, Rule] = {
    "valid-frames": Rule("sends only frames that match docs/schemas/frames.json", _FRAMES),
    "introduces-itself": Rule("answers hello with session_info", "docs/protocol.md#the-first-message"),
    "answers-requests": Rule("repeats the request_id of a frame in its answer", _FRAMES),
    "refuses": Rule("refuses a wrong frame with its error_code, and goes on", "docs/protocol.md#errors"),
    "names-the-call": Rule("names the call_id of a refused frame", _FRAMES),
    "ends-turns": Rule("ends a turn with agent_status idle", "docs/protocol.md#the-first-message"),
    "ends-messages": Rule("marks the last piece of a message, and no other", _FRAMES),
    "numbers": Rule("numbers the frames of a session 1, 2, 3 …", _DELIVERY),
    "accepts-once": Rule("accepts a message with the same client_msg_id once", _DELIVERY),
    "replays": Rule("replays all frames after last_seq, and those alone", _DELIVERY),
    "hides-extensions": Rule("sends no extension frames to those who have not asked", "docs/protocol.md#versions"),
    "one-executor": Rule("gives a call to one connection, and execute: false to the others", f"{_CALLS}, 5"),
    "settles-once": Rule("takes the first result of a call, and refuses others", f"{_CALLS}, 7"),
    "waits-for-approval": Rule("releases no call before a decision", f"{_CALLS}, 2"),
    "keeps-open-calls": Rule("lists the open calls after a reconnect", _DELIVERY),
    "releases": Rule("sends an approved call again, to be executed", "docs/protocol.md#a-call-that-the-user-approves"),
    "returns-the-edit": Rule("sends an edited call with the user's arguments", _EDIT),
    "obeys-rejection": Rule("never releases a call that was rejected", f"{_CALLS}, 2"),
    "cancels": Rule("ends a cancelled turn, and settles its calls", "docs/protocol.md#the-user-cancels-the-turn"),
}  # fmt: skip
