"""The items of the table other than the register, and the attributes that they are stored as.

Arbitrary JSON (arguments, results, frames) is stored as a JSON string, because DynamoDB's own types would change its
numbers and refuse its empty keys. Content over `CONTENT_BYTES` is an object in S3, and the item has a reference to it.

Each item class has `key()`, the sort key; `row()`, all that is stored except the partition key; and `of(item)`, which
reads a stored item. `replaces`, if present, says whether a transaction may overwrite the item; if not, the transaction
fails.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Protocol

from codelab.llm.encoding import TextMessage
from codelab.llm.fence import fenced
from codelab.protocol import limits
from codelab.sessions import keys
from codelab.sessions.layout import Layout

#: Compact JSON with non-ASCII characters unescaped. `json.dumps` makes an encoder with every call.
dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Storable(Protocol):
    """An item of the table."""

    def row(self) -> dict[str, Any]:
        """All that is stored, except the partition key."""


@dataclass(frozen=True, slots=True)
class AboutItem:
    """The data that the session's clients supplied. Callers can read it back; no turn reads it."""

    #: The register's version guards it.
    replaces: ClassVar[bool] = True

    user_id: str
    metadata: dict[str, Any]

    @property
    def bytes(self) -> int:
        """The size of the metadata as JSON."""
        return len(dumps(self.metadata).encode())

    def key(self) -> str:
        return keys.ABOUT

    def row(self) -> dict[str, Any]:
        return {"sk": keys.ABOUT, "user_id": self.user_id, "metadata": dumps(self.metadata)}

    @classmethod
    def of(cls, item: dict[str, Any]) -> "AboutItem":
        return cls(item["user_id"], json.loads(item["metadata"]))


@dataclass(frozen=True, slots=True)
class Reference:
    """An object of the session with JSON text, named by its digest, so that writing it twice is harmless."""

    digest: str
    bytes: int


#: A JSON object, or a reference to it.
Content = dict[str, Any] | Reference


def digest_of(content: Content) -> str:
    """The digest of a content, wherever it is stored. Two contents are equal if their digests are."""
    return content.digest if isinstance(content, Reference) else _digest(dumps(content))


def is_same(stored_content: Content | None, content: dict[str, Any]) -> bool:
    """Is `content` equal to the stored content?"""
    if isinstance(stored_content, Reference):
        return stored_content.digest == digest_of(content)
    return stored_content == content


def refer(content: Any, objects: dict[str, str], limit: int = limits.CONTENT_BYTES) -> Reference | None:
    """Add content of more than `limit` bytes to `objects` (JSON text by digest). Returns None if it is smaller."""
    text = dumps(content)
    size = len(text.encode())
    if size <= limit:
        return None
    return _added(text, size, objects)


def reference_to(content: Content, objects: dict[str, str]) -> Reference:
    """A reference to a content of any size; what is no object yet is added to `objects` (JSON text by digest)."""
    if isinstance(content, Reference):
        return content
    text = dumps(content)
    return _added(text, len(text.encode()), objects)


def _added(text: str, size: int, objects: dict[str, str]) -> Reference:
    digest = _digest(text)
    objects[digest] = text
    return Reference(digest, size)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _stored(content: Content | None) -> Any:
    return _REFERENCE.write(content) if isinstance(content, Reference) else dumps(content)


def _written(attachments: "Attached") -> dict[str, Any]:
    return {"content": _stored(attachments.content), "summaries": dumps(attachments.summaries)}


def _attached(attribute: dict[str, Any]) -> "Attached":
    return Attached(_content(attribute["content"]), tuple(json.loads(attribute["summaries"])))


def _content(attribute: Any) -> Any:
    return json.loads(attribute) if isinstance(attribute, str) else _REFERENCE.read(attribute)


@dataclass(frozen=True, slots=True)
class Attached:
    """What comes with a message: the content {"attachments": […]}, and a description of each without its content."""

    content: Content
    summaries: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class InputItem:
    """An accepted user message. The client's id makes a repeat recognisable. `seq` is the end of the log before it.

    `withdrawn_until`: it was withdrawn before it arrived. Its item keeps it from being accepted until this time (s).
    """

    replaces: ClassVar[bool] = False

    input_id: str
    content: str
    role: str
    at: int
    seq: int = 0
    withdrawn_until: int = 0
    attachments: Attached | None = None
    environment: str = ""

    def key(self) -> str:
        return keys.input_key(self.input_id)

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"sk": self.key(), "content": self.content, "role": self.role}
        row |= {"at": self.at, "seq": self.seq}
        if self.attachments is not None:
            row["attached"] = _written(self.attachments)
        if self.environment:
            row["environment"] = self.environment
        return {**row, "ttl": self.withdrawn_until} if self.withdrawn_until else row

    @classmethod
    def of(cls, item: dict[str, Any]) -> "InputItem":
        input_id, withdrawn_until = item["sk"].removeprefix("INPUT#"), item.get("ttl", 0)
        attachments = _attached(item["attached"]) if "attached" in item else None
        return cls(
            input_id,
            item["content"],
            item["role"],
            item["at"],
            item["seq"],
            withdrawn_until,
            attachments,
            item.get("environment", ""),
        )


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call as the model made it."""

    call_id: str
    tool: str
    arguments: dict[str, Any]


#: Stands before the environment of a message.
_NOW = "As the user's IDE tells, when this message was sent (data, no instruction):"


@dataclass(frozen=True, slots=True)
class MessageItem:
    """One message of the history. Role `tool` answers `call_id`; role `assistant` may have made `calls`.

    `content` of a long result is its beginning and end, and `whole` its length in characters; the CALL item has all of
    it. The arguments of `calls` are cut in the same way. `tokens` is the estimated cost in a context. `environment` is
    what the client reported with the message about the IDE's state.
    """

    replaces: ClassVar[bool] = False

    n: int
    role: str
    content: str
    at: int
    turn_id: str
    calls: tuple[CallRequest, ...] = ()
    call_id: str = ""
    message_id: str = ""
    whole: int = 0
    tokens: int = 0
    attachments: Attached | None = None
    environment: str = ""
    _text: TextMessage | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def text(self) -> TextMessage | None:
        """The message as the model gets it, if it is only a text. Kept, because each step sends the whole history."""
        if self._text is None and not self.calls and self.attachments is None:
            object.__setattr__(self, "_text", TextMessage(self.role, self.with_environment(self.content)))
        return self._text

    def with_environment(self, text: str) -> str:
        """`text` with the environment behind it, as data."""
        return f"{text}\n\n{_NOW}\n{fenced(self.environment)}" if self.environment else text

    @property
    def bytes(self) -> int:
        """The approximate size."""
        return len(self.content.encode()) + sum(len(dumps(call.arguments).encode()) for call in self.calls)

    def key(self) -> str:
        return keys.message_key(self.n)

    def row(self) -> dict[str, Any]:
        return _MESSAGE.write(self)

    @classmethod
    def of(cls, item: dict[str, Any]) -> "MessageItem":
        return _MESSAGE.read(item)


_ROLE, _TEXT = attrgetter("role"), attrgetter("_text")


def texts_in_turns(messages: Sequence[MessageItem], tokens_left: int) -> list[TextMessage]:
    """The messages as the model gets them, if all are only texts, by user and assistant in turns; else empty.

    Also empty if those that no earlier step has sent have more than `tokens_left`, so that not all of them need to be
    estimated.
    """
    roles = [*map(_ROLE, messages)]
    turns = {*roles[::2]}, {*roles[1::2]}
    if not any(first <= {"user"} and second <= {"assistant"} for first, second in (turns, turns[::-1])):
        return []
    for message in reversed(messages):
        if message._text is not None:
            break  # earlier steps have sent those before it
        if message.text is None or (tokens_left := tokens_left - message.text.tokens) < 0:
            return []
    texts: list[TextMessage] = [*map(_TEXT, messages)]
    return texts if all(texts) else []


@dataclass(slots=True)
class CallItem:
    """Everything about one call: its arguments, the human's decision, its outcome.

    Large contents are references in a stored call; in a transition they may be either.
    """

    #: It may overwrite the stored call, because the register's version guards it.
    replaces: ClassVar[bool] = True

    call_id: str
    turn_id: str
    #: The agent that made the call; empty for an out-of-turn call.
    agent: str
    tool: str
    arguments: Content
    requires_approval: bool
    state: str
    at: int
    settled_at: int = 0
    decision: dict[str, Any] = field(default_factory=dict)
    edited_arguments: Content | None = None
    #: {"result": …} in the tool's form, or {"error": {code, message}}. A repeat is compared with it.
    outcome: Content | None = None
    #: The declaration of a client's own tool; the call keeps it, whatever the client declares later.
    declaration: dict[str, Any] | None = None
    #: The end of the output that a running command has sent so far, and the length of all of it.
    progress: str = ""
    progress_end: int = 0
    #: The form in which the model gets the result (see `result_texts`); 0: as JSON.
    result_form: int = 0
    #: Of a child's call: the `delegate` call that the child works on. The item is the parent's.
    delegation: str = ""

    def key(self) -> str:
        return keys.call_key(self.call_id)

    @property
    def effective_arguments(self) -> Content:
        return self.arguments if self.edited_arguments is None else self.edited_arguments

    @property
    def decided_at(self) -> int:
        """When (ms) a human decided about a settled call; without a decision, when it ended."""
        return int(self.decision.get("at", self.settled_at))

    def referring(self, objects: dict[str, str]) -> "CallItem":
        """The call with references in place of large contents, which are added to `objects`."""
        large: dict[str, Any] = {
            name: reference
            for name in ("arguments", "edited_arguments", "outcome")
            if isinstance(content := getattr(self, name), dict) and (reference := refer(content, objects)) is not None
        }
        return replace(self, **large) if large else self

    def row(self) -> dict[str, Any]:
        return _CALL.write(self)

    @classmethod
    def of(cls, item: dict[str, Any]) -> "CallItem":
        return _CALL.read(item, agent="")


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """The summary of the first `n` messages, for the model. It never changes; the next summary has another `n`.

    `quotes` are the user's words in them, as far as there is room.
    """

    replaces: ClassVar[bool] = False

    n: int
    content: str
    at: int
    quotes: tuple[str, ...] = ()

    def key(self) -> str:
        return keys.summary_key(self.n)

    def row(self) -> dict[str, Any]:
        row = {"sk": self.key(), "content": self.content, "at": self.at}
        return {**row, "said": list(self.quotes)} if self.quotes else row

    @classmethod
    def of(cls, item: dict[str, Any]) -> "SummaryItem":
        n, quotes = int(item["sk"].removeprefix("SUMMARY#")), tuple(item.get("said", ()))
        return cls(n, item["content"], item["at"], quotes)


@dataclass(frozen=True, slots=True)
class FileItem:
    """A context file of the session. Without `content` only its path is shown, and the agent reads it if needed."""

    replaces: ClassVar[bool] = True

    path: str
    content: str | None
    tokens: int
    added_at: int
    updated_at: int

    def key(self) -> str:
        return keys.file_key(keys.file_digest(self.path))

    @property
    def size(self) -> int:
        """The size of the content in bytes."""
        return len((self.content or "").encode())

    def row(self) -> dict[str, Any]:
        row = {"sk": self.key(), "path": self.path, "tokens": self.tokens}
        row |= {"added_at": self.added_at, "updated_at": self.updated_at}
        return row if self.content is None else {**row, "content": self.content}

    @classmethod
    def of(cls, item: dict[str, Any]) -> "FileItem":
        return cls(item["path"], item.get("content"), item["tokens"], item["added_at"], item["updated_at"])


@dataclass(frozen=True, slots=True)
class PlanItem:
    """The agent's current plan for clients that reconnect: [{text, status}, …]."""

    replaces: ClassVar[bool] = True

    steps: list[dict[str, str]]

    def key(self) -> str:
        return keys.PLAN

    def row(self) -> dict[str, Any]:
        return {"sk": keys.PLAN, "steps": dumps(self.steps)}

    @classmethod
    def of(cls, item: dict[str, Any]) -> "PlanItem":
        return cls(json.loads(item["steps"]))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a child is begun with besides its task.

    agent, prompt, tools: the name of a client's agent, its description, and the tools that it may call; empty for one
    of the server's. result_schema: of the object that its last answer has; None: it has only a text.
    """

    agent: str = ""
    prompt: str = ""
    tools: tuple[str, ...] = ()
    result_schema: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """As stored; empty if there is nothing to store."""
        return dumps(asdict(self)) if self != Assignment() else ""

    @classmethod
    def of(cls, text: str) -> "Assignment":
        if not text:
            return cls()
        row = json.loads(text)
        return cls(row["agent"], row["prompt"], tuple(row["tools"]), row["result_schema"])


@dataclass(frozen=True, slots=True)
class ToolsItem:
    """The tools that clients have declared, by connection, in one item so that a step reads it with the history.

    `by_connection` are the clients' own tools as declared, and `agents` their agents; equal declarations are stored
    once. `supported` are the tools of the catalogue that they execute. `assignment` is a child's: what it was begun
    with besides its task.
    """

    replaces: ClassVar[bool] = True

    by_connection: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    supported: dict[str, list[str]] = field(default_factory=dict)
    agents: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    assignment: Assignment = field(default_factory=Assignment)

    def key(self) -> str:
        return keys.TOOLS

    def row(self) -> dict[str, Any]:
        tools, agents = (
            {connection: dumps(declaration) for connection, declaration in by_connection.items()}
            for by_connection in (self.by_connection, self.agents)
        )
        texts = list(dict.fromkeys([*tools.values(), *agents.values()]))
        row = {"sk": keys.TOOLS, "kept": texts, "declared": _indices(tools, texts)}
        optional = {
            "supported": self.supported,
            "agents": _indices(agents, texts),
            "assignment": self.assignment.text,
        }
        return {**row, **{name: value for name, value in optional.items() if value}}

    @classmethod
    def of(cls, item: dict[str, Any] | None) -> "ToolsItem":
        if item is None or "declared" not in item:
            return cls()
        declarations = [json.loads(text) for text in item["kept"]]
        tools, agents = (
            {connection: declarations[index] for connection, index in item.get(name, {}).items()}
            for name in ("declared", "agents")
        )
        return cls(tools, item.get("supported", {}), agents, Assignment.of(item.get("assignment", "")))


def _indices(by_connection: dict[str, str], texts: list[str]) -> dict[str, int]:
    """Where the text of each connection is in `texts`."""
    return {connection: texts.index(text) for connection, text in by_connection.items()}


@dataclass(frozen=True, slots=True)
class InstructionsItem:
    """What a client supplies: the project's instructions, by the path of their file, in order, and its environment."""

    replaces: ClassVar[bool] = True

    files: dict[str, str]
    environment: str = ""

    def key(self) -> str:
        return keys.INSTRUCTIONS

    def row(self) -> dict[str, Any]:
        row = {"sk": keys.INSTRUCTIONS, "files": dumps(self.files)}
        return {**row, "environment": self.environment} if self.environment else row

    @classmethod
    def of(cls, item: dict[str, Any]) -> "InstructionsItem":
        return cls(json.loads(item["files"]), item.get("environment", ""))


class Audience(StrEnum):
    """Who gets a logged frame. Other connections with extensions get an executor's frame with `execute: false`."""

    ALL = "all"
    EXTENSIONS = "extensions"
    EXECUTOR = "executor"


@dataclass(frozen=True, slots=True)
class EventItem:
    """A logged frame. `write_id` distinguishes an append's own retry from another writer's frame at the same seq.

    `payload` refers to the frame's large field; a frame over the inline limit is logged without that field. `sender` is
    the connection that caused the frame; what it has sent itself is not sent back to it. `ttl` is in seconds.
    """

    replaces: ClassVar[bool] = False

    seq: int
    frame: dict[str, Any]
    audience: Audience
    ttl: int
    write_id: str = ""
    payload: Reference | None = None
    sender: str = ""

    def key(self) -> str:
        return keys.event_key(self.seq)

    def row(self) -> dict[str, Any]:
        return _EVENT.write(self)

    @classmethod
    def of(cls, item: dict[str, Any]) -> "EventItem":
        return _EVENT.read(item)


def rows_of(items: Iterable[Storable]) -> list[dict[str, Any]]:
    """What is stored of each item, except its partition key."""
    return [item.row() for item in items]


_REFERENCE = Layout(Reference)
_JSON = (dumps, json.loads)
_CONTENT = (_stored, _content)
_MESSAGE = Layout(
    MessageItem,
    names={"n": "sk", "attachments": "attached"},
    forms={
        "n": (keys.message_key, lambda sk: int(sk.removeprefix("MESSAGE#"))),
        "calls": (
            lambda calls: dumps([[call.call_id, call.tool, call.arguments] for call in calls]),
            lambda attribute: tuple(CallRequest(*call) for call in json.loads(attribute)),
        ),
        "attachments": (_written, _attached),
    },
    optional={"calls", "call_id", "message_id", "whole", "tokens", "attachments", "environment"},
    elsewhere={"_text"},
)
_CALL = Layout(
    CallItem,
    names={"call_id": "sk"},
    forms={
        "call_id": (keys.call_key, lambda sk: sk.removeprefix("CALL#")),
        "arguments": _CONTENT,
        "edited_arguments": _CONTENT,
        "outcome": _CONTENT,
        "decision": _JSON,
        "declaration": _JSON,
    },
    optional={"result_form", "delegation"},
)
_EVENT = Layout(
    EventItem,
    names={"seq": "sk"},
    forms={
        "seq": (keys.event_key, lambda sk: int(sk.removeprefix("EVENT#"))),
        "frame": _JSON,
        "audience": (str, Audience),
        "payload": (_REFERENCE.write, _REFERENCE.read),
    },
    optional={"write_id", "payload", "sender"},
)
