"""Providers cache how prompts begin: a long turn sends little that its steps before have not sent."""

import json
from typing import Any

import pytest
from codelab.llm.client.transport import Call

from tests.fakes.aws.recorder import READ_MANY
from tests.fakes.model.in_process import Body, Chunk, InProcess
from tests.fakes.model.script import SUMMARY, call, is_summary
from tests.fakes.model.wire import delta
from tests.functions.system import System

STEPS = 30
#: Characters of a token, and the tokens of one part of a prompt that is cached or not.
_TOKEN, _PART = 4, 128


class CachingProvider(InProcess):
    """Reads a file with each step, and counts what of a prompt it has seen at the beginning of another one.

    As OpenAI does: the schema and then the messages are the prompt, in parts of 128 tokens.
    """

    def __init__(self) -> None:
        super().__init__(self._say)
        self._left = 1
        self._seen: list[str] = []
        self.prompt_tokens = self.cached_tokens = self.misses = self.summaries = 0

    def begin(self, steps: int) -> None:
        """Count from here on; the next turn has so many steps."""
        self._left = steps
        self.prompt_tokens = self.cached_tokens = self.misses = 0

    @property
    def last(self) -> str:
        """The last prompt, as JSON."""
        return self._seen[-1]

    def _say(self, body: Body, _call: Call) -> Chunk:
        schema = body["response_format"]["json_schema"]["schema"]
        usage: dict[str, Any] = {}
        if is_summary(body):
            self.summaries += 1
            answer: dict[str, Any] = SUMMARY
        else:
            usage = self._counted(json.dumps([schema, *body["messages"]]))
            self._left -= 1
            step = f"lib/part_{self._left}.dart"
            answer = {"message": "", "calls": [call("read_file", path=step)]} if self._left else _ANSWER
        return {**delta(json.dumps(answer), finish="stop"), "usage": usage}

    def _counted(self, prompt: str) -> dict[str, Any]:
        total = len(prompt) // _TOKEN
        same = max((_same(prompt, seen) for seen in self._seen), default=0)
        cached = same // _TOKEN // _PART * _PART
        if self._seen and same < _stable(self._seen[-1]):
            self.misses += 1
        self._seen.append(prompt)
        self.prompt_tokens += total
        self.cached_tokens += cached
        return {"prompt_tokens": total, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": cached}}


def _stable(prompt: str) -> int:
    """How many characters the next step repeats: all but the reminder behind the newest results, and the list's end."""
    reminder = prompt.rfind("\\n\\nThe task was:")
    return reminder if reminder >= 0 else len(prompt) - 2


def _same(one: str, other: str) -> int:
    """How many characters both begin with."""
    same, longest = 0, min(len(one), len(other))
    while same < longest:  # halves of what may be the same, down to one character
        step = longest - same
        while one[same : same + step] != other[same : same + step]:
            if step == 1:
                return same
            step //= 2
        same += step
    return same


_ANSWER: dict[str, Any] = {"message": "That is all of it.", "calls": []}


@pytest.fixture
def provider(extended: System, monkeypatch: pytest.MonkeyPatch) -> CachingProvider:
    model = CachingProvider()
    monkeypatch.setattr(extended, "model", model)
    return model


def turn(system: System, model: CachingProvider, lines: int) -> int:
    """A turn of thirty steps, each of which reads a file of so many lines. Returns how often results were cut.

    The session has had an answer, because its title was asked for in another schema.
    """
    for _ in range(2):
        model.begin(1)
        system.say("c1", "Hello!")
    model.begin(STEPS)
    calls = system.say("c1", "Read every part, and never touch FACT-legacy.")
    cuts = {0}
    for step in range(1, STEPS):
        [call_id] = calls
        content = f"// part {step}\n" + "final x = compute(1, 2);\n" * lines
        system.send("c1", "tool_result", call_id=call_id, result={"content": content})
        system.run_step()
        register = system.item("REGISTER")
        calls = list(register.get("calls", {}))
        cuts.add(register.get("cut_n", 0))
    assert calls == []
    return len(cuts) - 1


def test_nine_of_ten_tokens_of_thirty_steps_come_from_the_cache(extended: System, provider: CachingProvider) -> None:
    assert turn(extended, provider, lines=100) == 0
    assert provider.cached_tokens >= 0.9 * provider.prompt_tokens
    assert (provider.misses, provider.summaries) == (0, 0)
    [ended] = [frame for frame in extended.aws.frames("c1") if frame["type"] == "turn_end"]
    assert ended["usage"]["cached_tokens"] == provider.cached_tokens


@pytest.mark.deep  # the first test has most of it
def test_what_is_sent_changes_only_when_old_results_are_cut_in_one_go(
    extended: System, provider: CachingProvider
) -> None:
    extended.environment = {"MAX_CONTEXT_TOKENS": "24000"}
    cuts = turn(extended, provider, lines=80)
    assert 0 < cuts <= 4
    assert (provider.misses, provider.summaries) == (cuts, 0)
    last = provider.last
    assert "to read on: read_result" in last
    assert "never touch FACT-legacy" in last
    assert "// part 29" in last
    assert provider.cached_tokens >= 0.75 * provider.prompt_tokens


@pytest.mark.deep  # functions/test_compaction.py has shorter ones
def test_a_summary_keeps_what_the_user_said_word_for_word(extended: System, provider: CachingProvider) -> None:
    extended.environment = {"MAX_CONTEXT_TOKENS": "24000"}
    for n in range(30):
        provider.begin(1)
        extended.say("c1", f"Wish {n}: never touch FACT-{n}. " + "Because. " * 500 * (n % 2))
    assert provider.summaries
    opening = json.loads(provider.last)[2]["content"]
    assert "word for word:\n- Wish 0: never touch FACT-0." in opening
    assert "- Wish 2: never touch FACT-2." in opening


@pytest.mark.deep
def test_a_history_of_hundreds_of_messages_is_read_in_parallel_by_a_new_process(extended: System) -> None:
    for _ in range(70):
        extended.ask("c1", "ok")
    extended.send("c1", "user_message", content="And then?")
    extended.model.says("ok")
    extended._functions.pop("llm_request")
    extended.run_step()
    assert extended.aws.calls.count(READ_MANY) == 2
    assert len(extended.model.requests[-1]["messages"]) == 1 + 2 * 70 + 1
