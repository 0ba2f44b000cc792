"""What providers charge for the prompts of thirty steps, with their caches asked for as their documents say."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from codelab.agents import agents
from codelab.llm.client.api import api_named
from codelab.llm.client.request import Request
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import TransportError
from codelab.llm.history import reminder
from codelab.llm.profiles import profile_of
from codelab.llm.prompt_cache import cache_fields
from codelab.turns.model_answers import answer_schema

from tests.cases import cases
from tests.fakes.model.caches import (
    Automatic,
    Cashier,
    Charged,
    Marked,
    Price,
    chat_blocks,
    converse_blocks,
    messages_blocks,
    responses_blocks,
)
from tests.fakes.model.in_process import Body, Chunk
from tests.fakes.model.wire import calls_functions, delta

Json = dict[str, Any]

PAGE = Path(__file__).parents[2].joinpath("docs/models.md").read_text(encoding="utf-8")
STEPS = 30
AGENT = agents()["coder"]
SCHEMA = answer_schema(AGENT, has_title=False)
TASK = "Read every part and say what is wrong."


class Provider(NamedTuple):
    """A model behind a profile, how it caches and what it charges beside a token that is not cached."""

    name: str
    model: str
    cache: Callable[[], Automatic | Marked]
    price: Price
    blocks: Callable[[Json], Iterator[Any]] = chat_blocks


def _openai() -> Marked:
    return Marked(least=1_024, keyed=True)


def _anthropic() -> Marked:
    return Marked(least=1_024, back=20)


#: Least lengths, sizes of parts, look-backs and prices as the providers' documents have them.
_CLAUDE = Price(0.1, 1.25)
PROVIDERS = [
    Provider("openai", "gpt-5-mini", lambda: Automatic(least=1_024, part=128, keyed=True), Price(0.1)),
    Provider("openai", "gpt-6-sol", _openai, Price(0.1, 1.25)),
    Provider("openai-responses", "gpt-6-sol", _openai, Price(0.1, 1.25), responses_blocks),
    Provider("anthropic-messages", "claude-sonnet-5", _anthropic, _CLAUDE, messages_blocks),
    Provider("bedrock", "us.anthropic.claude-sonnet-4-6-v1:0", _anthropic, _CLAUDE, converse_blocks),
    Provider("bedrock", "amazon.nova-pro-v1:0", lambda: Marked(least=1_000, most=20_000), Price(0.25), converse_blocks),
    Provider("openrouter", "anthropic/claude-sonnet-4.5", _anthropic, _CLAUDE),
    Provider("deepseek", "deepseek-v4-flash", lambda: Automatic(least=64, part=64), Price(0.1)),
    Provider("gemini", "gemini-3-flash", lambda: Automatic(least=1_024, part=1), Price(0.1)),
]


class Reader:
    """Calls `reads` functions with each answer, and is charged for what its API sends. It is a Transport."""

    base_url = "http://model.invalid"

    def __init__(self, provider: Provider, cashier: Cashier, reads: int) -> None:
        self._api = api_named(profile_of(provider.name, provider.model).api, lambda _: 100_000)
        self._cashier, self._reads = cashier, reads

    def send(self, body: Body, call: Call) -> Iterator[list[Chunk]]:
        usage = self._cashier.take(json.loads(self._api.encode(body)))
        arguments = [{"path": f"lib/part_{number}.dart"} for number in range(self._reads)]
        if calls_functions(body):
            calls = [
                {"index": n, "id": f"c{n}", "type": "function",
                 "function": {"name": "read_file", "arguments": json.dumps(it)}}
                for n, it in enumerate(arguments)
            ]  # fmt: skip
            chunk = delta(finish="tool_calls", tool_calls=calls)
        else:
            made = [{"_tool": "read_file", **it} for it in arguments]
            chunk = delta(json.dumps({"message": "", "calls": made}), finish="stop")
        yield [{**chunk, "usage": usage}]


def thirty_steps(provider: Provider, strategy: Any, *, reads: int = 1) -> Charged:
    """A turn of thirty steps, each of which reads so many files, together a hundred lines."""
    cashier = Cashier(provider.cache(), provider.blocks)
    model = Reader(provider, cashier, reads)
    config = RequestConfig(provider.model, provider=provider.name, strategy=strategy, max_repairs=0)
    messages: list[Json] = [
        {"role": "system", "content": AGENT.prompt},
        {"role": "user", "content": f"# Context files\n{'A line of it. ' * 300}\n\n{TASK}"},
    ]
    for step in range(STEPS):
        asked = Request(
            config, SCHEMA, messages, unsupported=UnsupportedFeatures(), is_continued=True,
            behind_results=reminder(TASK) if step else "",
        )  # fmt: skip
        result = [*asked.stream(model)][-1].result  # type: ignore[union-attr]
        assert (result.attempts, len(result.solution["calls"])) == (1, reads)
        calls = [
            {
                "id": f"{step}_{n}",
                "type": "function",
                "function": {"name": it.pop("_tool"), "arguments": json.dumps(it)},
            }
            for n, it in enumerate(result.solution["calls"])
        ]
        messages = [*messages, {"role": "assistant", "content": "", "tool_calls": calls}]
        lines = f"// {step}\n" + "final x = compute(1, 2);\n" * (100 // reads)
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": lines} for call in calls]
    return cashier.charged


@pytest.mark.deep  # figures of a page; functions/test_prefix_cache.py has the rule
def test_the_page_tells_what_thirty_steps_read_from_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for provider in PROVIDERS:
        for strategy in (None, "calls"):
            charged = thirty_steps(provider, strategy)
            read, written = charged.read / charged.prompt, charged.written / charged.prompt
            rows.append(
                f"| `{provider.name}`, `{provider.model}` | {'`calls`' if strategy else 'its own'} "
                f"| {read:.0%} | {written:.0%} | {charged.cost(provider.price):.0%} |"
            )
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(rows) + "\n")
    assert [row for row in rows if row not in PAGE] == []


@cases("provider", PROVIDERS[:2], ids=lambda it: f"{it.name}-{it.model}")
def test_many_calls_at_once_do_not_lose_the_cache(provider: Provider) -> None:
    """Of twelve calls and results there are more blocks than Anthropic looks back."""
    charged = thirty_steps(provider, "calls", reads=12)
    assert charged.read >= 0.85 * charged.prompt


def test_a_provider_that_refuses_to_be_asked_is_asked_without_once_per_process() -> None:
    refused = list[str]()

    class Strict(Reader):
        def send(self, body: Body, call: Call) -> Iterator[list[Chunk]]:
            if "prompt_cache_key" in body:
                refused.append("prompt_cache_key")
                raise TransportError("Unrecognized request argument supplied: prompt_cache_key", status=400)
            return super().send(body, call)

    provider, unsupported = PROVIDERS[0], UnsupportedFeatures()
    model = Strict(provider, Cashier(Automatic(least=1, part=1), chat_blocks), 1)
    for attempts in (2, 1):
        asked = Request(
            RequestConfig(provider.model), SCHEMA, [{"role": "user", "content": "a"}], unsupported=unsupported
        )
        assert [*asked.stream(model)][-1].result.attempts == attempts  # type: ignore[union-attr]
    assert refused == ["prompt_cache_key"]
    assert unsupported.of(model.base_url, provider.model) == {"caching"}


def test_the_key_stands_for_how_a_conversation_begins_and_tells_nothing_of_it() -> None:
    caching = profile_of("openai", "gpt-6-sol").caching
    assert caching is not None

    def key(*texts: str) -> str:
        messages = [
            {"role": role, "content": text} for role, text in zip(("system", "user", "assistant"), texts, strict=False)
        ]
        made: str = cache_fields(caching, "m", messages, repeats_end=True)["prompt_cache_key"]
        return made

    assert key("Be brief.", "Hello", "Hi") == key("Be brief.", "Hello", "What?") == key("Be brief.", "Hello")
    assert len({key("Be brief.", "Hello"), key("Be brief.", "Hello!"), key("Be long.", "Hello")}) == 3
    assert len(key("Be brief.", "Hello")) <= 64, "OpenAI takes no more"
