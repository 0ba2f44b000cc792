"""What providers charge for a prompt, by their documents: which part of it they had cached, and which they write.

A prompt is a list of blocks in the order in which the provider reads them; four characters are a token. Each provider
gets the requests as its API has them, encoded.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Json = dict[str, Any]

_TOKEN_CHARS = 4
_MARKS = ("cache_control", "prompt_cache_breakpoint")


class Block(NamedTuple):
    """A part of a prompt. marked: its end is one of the request's marks."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Price:
    """Of a token of a prompt that is read from the cache, and of one that is written to it. Others cost 1."""

    read: float
    write: float = 1.0


@dataclass
class Charged:
    """Tokens of all prompts."""

    prompt: int = 0
    read: int = 0
    written: int = 0

    def cost(self, price: Price) -> float:
        """What the prompts cost, as a part of what they would without a cache."""
        return (
            self.prompt - self.read - self.written + self.read * price.read + self.written * price.write
        ) / self.prompt


class Automatic:
    """Caches every prompt, in parts of `part` tokens; finds the longest beginning that it has seen. With `keyed`, only
    calls with the same key meet. It charges nothing for writing.

    https://developers.openai.com/api/docs/guides/prompt-caching, https://api-docs.deepseek.com/guides/kv_cache
    """

    def __init__(self, *, least: int, part: int, keyed: bool = False) -> None:
        self._least, self._part, self._keyed = least, part, keyed
        self._seen: dict[str, list[str]] = {}

    def charge(self, body: Json, blocks: list[Block]) -> tuple[int, int]:
        """The tokens read, and those written."""
        text = "".join(block.text for block in blocks)
        seen = self._seen.setdefault(body["prompt_cache_key"] if self._keyed else "", [])
        tokens = max((_same(text, other) for other in seen), default=0) // _TOKEN_CHARS // self._part * self._part
        seen.append(text)
        return (tokens if tokens >= self._least else 0), 0


class Marked:
    """Writes at marks only, of which a request has at most four, and reads what was written at one of the `back` blocks
    before a mark, the marked one included. `keyed`: as `Automatic`. most: tokens that are cached at all.

    https://platform.claude.com/docs/en/build-with-claude/prompt-caching (a look-back of 20 blocks),
    https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html, and OpenAI's guide (GPT-5.6: marks only)
    """

    _MOST_MARKS = 4

    def __init__(self, *, least: int, back: int = 1, keyed: bool = False, most: int | None = None) -> None:
        self._least, self._back, self._keyed, self._most = least, back, keyed, most
        self._written: set[tuple[str, str]] = set()

    def charge(self, body: Json, blocks: list[Block]) -> tuple[int, int]:
        """See `Automatic.charge`."""
        key = body["prompt_cache_key"] if self._keyed else ""
        if self._keyed:
            assert body["prompt_cache_options"] == {"mode": "explicit"}, "it would write at the last message, too"
        marks = [number for number, block in enumerate(blocks) if block.marked]
        assert len(marks) <= self._MOST_MARKS
        beginnings, text = list[str](), ""
        for block in blocks:
            text += block.text
            beginnings.append(text)
        sizes = [len(beginning) // _TOKEN_CHARS for beginning in beginnings]
        candidates = {number for mark in marks for number in range(max(0, mark - self._back + 1), mark + 1)}
        read = max((sizes[n] for n in candidates if (key, beginnings[n]) in self._written), default=0)
        new = [n for n in marks if sizes[n] >= self._least and (self._most is None or sizes[n] <= self._most)]
        self._written |= {(key, beginnings[n]) for n in new}
        return read, max(0, max((sizes[n] for n in new), default=0) - read)


@dataclass
class Cashier:
    """Takes a provider's requests and keeps what they cost. `blocks` reads them."""

    cache: Automatic | Marked
    blocks: Callable[[Json], Iterator[Block]]
    charged: Charged = field(default_factory=Charged)

    def take(self, body: Json) -> Json:
        """The usage of a request, as a chat completion has it."""
        blocks = list(self.blocks(body))
        prompt = sum(len(block.text) for block in blocks) // _TOKEN_CHARS
        read, written = self.cache.charge(body, blocks)
        self.charged.prompt += prompt
        self.charged.read += read
        self.charged.written += written
        details = {"cached_tokens": read, "cache_write_tokens": written}
        return {"prompt_tokens": prompt, "completion_tokens": 20, "prompt_tokens_details": details}


def chat_blocks(body: Json) -> Iterator[Block]:
    """Tools, the schema, then a block for each part of a message, and for its calls."""
    yield _block({"tools": body.get("tools"), "format": body.get("response_format")})
    for message in body["messages"]:
        yield from _parts(message, "content")


def responses_blocks(body: Json) -> Iterator[Block]:
    """The same, of items."""
    yield _block({"tools": body.get("tools"), "format": body.get("text")})
    for item in body["input"]:
        yield from _parts(item, "output" if item.get("type") == "function_call_output" else "content")


def messages_blocks(body: Json) -> Iterator[Block]:
    """Tools, the system prompt, and the blocks of the messages."""
    for block in [*body.get("tools", ()), *body.get("system", ())]:
        yield _block(block)
    for message in body["messages"]:
        yield from map(_block, message["content"])


def converse_blocks(body: Json) -> Iterator[Block]:
    """The same, where a mark is a block behind the one that it marks."""
    last: Block | None = None
    config = body.get("toolConfig", {})
    for block in [config, *body.get("system", ()), *(it for turn in body["messages"] for it in turn["content"])]:
        if "cachePoint" in block:
            assert last is not None
            last = Block(last.text, marked=True)
            continue
        if last is not None:
            yield last
        last = _block(block)
    if last is not None:
        yield last


def _parts(message: Json, name: str) -> Iterator[Block]:
    rest = {field: value for field, value in message.items() if field != name}
    content = message.get(name)
    for part in content if isinstance(content, list) else [{"text": content}]:
        text = part.get("text")
        yield Block(str(text), any(mark in part for mark in _MARKS))
    yield _block(rest)


def _block(value: Mapping[str, Any]) -> Block:
    marked = any(mark in value for mark in _MARKS)
    return Block(json.dumps({name: it for name, it in value.items() if name not in _MARKS}), marked)


def _same(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
