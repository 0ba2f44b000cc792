"""The tables and examples of docs/request.md are right."""

from __future__ import annotations

import json
import re
from pathlib import Path

from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.llm.content import BUILT_IN
from codelab.llm.modes import Mode, modes
from codelab.llm.profiles import PROFILES

from tests.cases import cases

PAGE = (Path(__file__).parents[2] / "docs/request.md").read_text()
ROWS = {cells[0]: cells[1:] for line in PAGE.splitlines() if line.startswith("| ")
        for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]}  # fmt: skip


def words(mode: Mode) -> str:
    notes = []
    if mode.strict:
        notes.append("strict")
    if mode.strategy == "tool":
        notes.append("forced" if mode.is_forced else "auto")
    if mode.strategy == "json" and not mode.json_object:
        notes.append("prompt only")
    return f"{mode.strategy} ({', '.join(notes)})" if notes else mode.strategy


@cases("provider", PROFILES)
def test_the_table_of_strategies_is_right(provider: str) -> None:
    expected = []
    for streaming in (True, False):
        for thinking in (False, True):
            config = RequestConfig("m", provider=provider, thinking=thinking)
            expected.append(words(next(modes(PROFILES[provider], config, streaming=streaming, strict=True))))
    assert ROWS.get(provider) == expected, f"see the row of {provider} in docs/request.md, Four strategies"


def test_the_table_of_what_the_model_reads_has_every_profile() -> None:
    head = "| profile | the schema is shown with `native` |"
    table = PAGE[PAGE.index(head) :].partition("\n\n")[0]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    assert PROFILES.keys() <= named, "see docs/request.md, What the model reads"


@cases("type_", BUILT_IN.types)
def test_the_example_of_each_content_type_works(type_: str) -> None:
    example = json.loads(ROWS[type_][0].strip("`"))
    assert example["type"] == type_
    hello = {"role": "user", "content": "Hello"}
    request = Request(RequestConfig("m"), {"type": "object", "properties": {}}, [hello, example])
    assert request.messages[0] == hello
    assert len(request.messages) == (1 if type_ == "tool" else 2)


def test_the_example_of_a_custom_type_works() -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "registry.register" in block)
    context = [{"type": "poll", "question": "Tea?", "options": ["yes", "no"]}]
    schema = {"type": "object", "properties": {}}
    names: dict[str, object] = {"config": RequestConfig("m"), "schema": schema, "context": context}
    exec(code.replace("\nRequest(", "\nmade = Request("), names)
    made = names["made"]
    assert isinstance(made, Request)
    assert made.config.temperature == 0
    assert made.schema["properties"]["vote"]["enum"] == ["yes", "no"]
