"""The schemas of real Requests: the agents' answers for several sets of tools, summaries, titles, and the corpus."""

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from codelab.agents import agents
from codelab.protocol.tools import ExecutorTools
from codelab.turns import compaction, routing, titles
from codelab.turns.model_answers import ANSWER, answer_schema

_CORPUS = Path(__file__).parents[1] / "llm" / "corpus" / "schemas.jsonl"
#: What executors may execute. Prompts with all tools (None) are long, so one agent is enough.
_FEW = (
    frozenset({"read_file"}),
    frozenset({"list_files", "search_in_project"}),
    frozenset({"read_file", "write_file", "edit_file"}),
    frozenset({"read_file", "run_command"}),
)
_TOOL_SETS: dict[str, tuple[frozenset[str] | None, ...]] = {
    "ask": _FEW[:2],
    "architect": _FEW[:3],
    "universal": (*_FEW, None),
}


def answers() -> Iterator[tuple[str, Any]]:
    """The schemas of agents' answers, by name."""
    for name, tool_sets in _TOOL_SETS.items():
        for tools in tool_sets:
            agent = agents()[name].for_executor(ExecutorTools(supported=tools))
            for titled in (False, True):
                count = len(agent.tools)
                yield f"{name}, {count} tools{', title' if titled else ''}", answer_schema(agent, has_title=titled)
    names = [name for name, agent in agents().items() if not agent.routes]
    yield "router", routing.schema({}, names)
    yield "router, title", titles.with_title(routing.schema(ANSWER | {"properties": {}, "required": []}, names))
    yield "compaction", compaction.SCHEMA


def corpus() -> Iterator[tuple[str, Any, Any]]:
    """The schemas of the corpus, by id, with a short instance. The small ones come first: they have short answers."""
    rows = [json.loads(line) for line in _CORPUS.read_text("utf-8").splitlines()]
    for row in sorted(rows, key=lambda row: len(json.dumps(row["schema"]))):
        yield row["id"], row["schema"], min(row["valid"], key=lambda instance: len(json.dumps(instance)))


def real_requests(count: int) -> list[tuple[str, Any, str]]:
    """So many schemas with their names and a user's message: those of the agents, then of the corpus.

    The corpus's messages have the data to fill in, as those of a Request that extracts something do.
    """
    task = "Read notes.txt. Be very brief."
    of_agents = ((name, schema, task) for name, schema in answers())
    of_corpus = (
        (name, schema, f"Fill in the answer with these data: {json.dumps(data, ensure_ascii=False)}")
        for name, schema, data in corpus()
    )
    return list(islice(chain(of_agents, of_corpus), count))
