"""What a Request tells of the calls that the model is writing, in each way to ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.item_texts import item_delta, string_paths
from codelab.llm.outcome import Done, Event, ItemDelta, ItemsDropped, TextDelta
from codelab.llm.profiles import STRATEGIES
from codelab.llm.scanner import Scanner

from tests.fakes.model.wire import ScriptedServer, saying
from tests.llm.schemas import STRING, array, closed, obj

WRITE = closed(obj(_tool={"const": "write"}, path=STRING, content=STRING))
EDIT = closed(obj(_tool={"const": "fs.edit"}, path=STRING, edits=array(closed(obj(old=STRING, new=STRING)))))
TURN = closed(obj(message=STRING, calls=array({"anyOf": [WRITE, EDIT]})))
CONTENT = 'print("é\\n")\n\tx = "😀"\n'
WRITTEN = {"_tool": "write", "path": "a b.py", "content": CONTENT}
EDITED = {"_tool": "fs.edit", "path": "c", "edits": [{"old": "1", "new": "2"}, {"old": "3", "new": ""}]}


def answer(*calls: dict[str, Any]) -> str:
    return json.dumps({"message": "Here.", "calls": calls})


def events(transport: Any, *, shows_items: bool = True, **config: Any) -> list[Event]:
    """What a Request yields."""
    request = Request(
        RequestConfig(model="m", **config),
        TURN,
        [{"role": "user", "content": "Write it"}],
        unsupported=UnsupportedFeatures(),
        retry=RetryPolicy(base_s=0.001),
    )
    return list(request.stream(transport, shows_items=shows_items))


def items_of(stream: list[Event]) -> list[dict[str, str]]:
    """The strings of each item, by name."""
    items: dict[int, dict[str, str]] = {}
    for event in stream:
        if isinstance(event, ItemDelta):
            item = items.setdefault(event.index, {})
            item[event.name] = item.get(event.name, "") + event.text
    return [items[index] for index in sorted(items)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_strings_of_calls_are_told_while_they_are_written(
    server: ScriptedServer, transport: Any, strategy: Any, size: int
) -> None:
    server.answer(saying(answer(WRITTEN, EDITED), size=size))
    stream = events(transport, strategy=strategy)
    assert items_of(stream) == [
        WRITTEN,
        {"_tool": "fs.edit", "path": "c", "edits.0.old": "1", "edits.0.new": "2", "edits.1.old": "3"},
    ]
    assert "".join(event.text for event in stream if isinstance(event, TextDelta)) == "Here."
    assert not any(isinstance(event, ItemsDropped) for event in stream)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_told_unless_it_is_asked_for(server: ScriptedServer, transport: Any, strategy: Any) -> None:
    server.answer(saying(answer(WRITTEN)))
    assert items_of(events(transport, strategy=strategy, shows_items=False)) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_answer_that_is_repaired_drops_what_was_told(server: ScriptedServer, transport: Any, strategy: Any) -> None:
    server.answer(saying(answer(WRITTEN | {"more": 1})), saying(answer(EDITED)))
    stream = events(transport, strategy=strategy)
    [place] = [place for place, event in enumerate(stream) if isinstance(event, ItemsDropped)]
    assert items_of(stream[:place]) == [WRITTEN]
    assert [item["_tool"] for item in items_of(stream[place:])] == ["fs.edit"]
    last = stream[-1]
    assert isinstance(last, Done)
    assert last.result.solution == {"message": "Here.", "calls": [EDITED]}


@pytest.mark.parametrize(
    "text",
    [f'{{"calls": {{"x": {{"y": "s"}}, "{"9" * 9_999}": {{"y": "s"}}, "": {{"": "s"}}}}}}', '{"calls": ["s", ["s"]]}'],
)
def test_what_is_no_list_of_objects_breaks_nothing(text: str) -> None:
    scanned = Scanner(string_paths(("calls",))).feed(text)
    deltas = [item_delta(event, ("calls",)) for event in scanned if isinstance(event, TextDelta)]
    assert [delta for delta in deltas if delta is not None] in ([], [ItemDelta(1, "0", "s")])
