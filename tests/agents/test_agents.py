"""Which agents there are, what each may call, and on which files."""

import json
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from codelab.agents import FALLBACK, agents, read_agents
from codelab.llm.config import RequestConfig
from codelab.protocol.globs import matches
from codelab.protocol.tools import CATALOGUE, ExecutorTools

from tests.cases import cases
from tests.turns.world import WRITE, calling


def test_there_are_these_agents_and_one_of_them_only_routes() -> None:
    assert set(agents()) == {"architect", "ask", "coder", "debug", "orchestrator", "universal"}
    assert [agent.name for agent in agents().values() if agent.routes] == ["orchestrator"]
    assert not agents()["orchestrator"].tools


def test_who_answers_by_default_may_do_everything() -> None:
    assert set(agents()[FALLBACK].tools) == set(CATALOGUE)


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("ask", {"write_file", "apply_patch", "run_command"}),
        ("debug", {"write_file", "apply_patch", "delete_file", "git.commit"}),
        ("architect", {"create_directory", "git.commit", "run_command", "run_persistent"}),
    ],
)
def test_an_agent_has_only_its_tools(name: str, lacks: Any) -> None:
    assert lacks.isdisjoint(agents()[name].tools)
    assert "read_file" in agents()[name].tools


def test_who_only_reads_has_no_tool_that_does_more() -> None:
    assert {tool.risk for tool in agents()["ask"].tools.values()} == {"read"}


@cases(
    "rule",
    [
        "Never invent what is in a file, nor the path",
        "While work remains, an answer has the next calls",
        "Go on until the task is done",
        "Create no file and make no commit that the user did not ask for",
    ],
)
def test_every_prompt_has_the_rules_against_what_models_were_seen_to_do(rule: Any) -> None:
    answering = [agent for agent in agents().values() if not agent.routes]
    assert all(rule in " ".join(agent.prompt.split()) for agent in answering)


def test_every_agents_settings_are_settings_of_a_request() -> None:
    for agent in agents().values():
        RequestConfig(model="any").changed(**agent.model).check()


def test_a_new_agent_is_added_by_adding_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    shutil.copytree(str(files("codelab.agents")), folder)
    (folder / "reviewer.toml").write_text(
        'description = "Reviews."\nrisks = ["read"]\nprompt = "You review."\n'
        '[paths]\nread = ["src/**"]\n[model]\ntemperature = 0.5\n'
    )
    reviewer = read_agents(folder)["reviewer"]
    assert reviewer.prompt.startswith("You review.")
    assert "data" in reviewer.prompt, "what holds for all agents holds for it too"
    assert reviewer.model == {"temperature": 0.5}
    assert set(reviewer.tools) == set(agents()["ask"].tools)


@pytest.mark.parametrize(
    ("line", "complaint"), [('tools = ["no_such"]', "no_such"), ("colour = 1", "colour"), ("prompt = ", "bad.toml")]
)
def test_a_bad_file_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    (tmp_path / "rules.md").write_text("")
    (tmp_path / "bad.toml").write_text(f'description = ""\nprompt = ""\n{line}\n')
    with pytest.raises(ValueError, match=complaint):
        read_agents(tmp_path)


@cases(
    ("glob", "path", "matching"),
    [
        ("*.md", "README.md", True),
        ("*.md", "docs/adr/001.md", True),
        ("*.md", "docs\\a.md", True),
        ("*.md", "README.md.py", False),
        ("*.md", "notes.md/run.sh", False),
        ("*.md", ".", False),
        ("docs/*.md", "docs/a.md", True),
        ("docs/*.md", "docs/deep/a.md", False),
        ("docs/**", "docs/deep/a.py", True),
        ("docs/**", "docs", False),
        ("**/test_*.py", "test_a.py", True),
        ("**/test_*.py", "a/b/test_a.py", True),
        ("a?.py", "ab.py", True),
        ("[x].py", "x.py", False),
    ],
)
def test_globs_are_read_as_gitignore_reads_them(glob: str, path: str, matching: Any) -> None:
    assert matches(glob, path) is matching


@pytest.mark.parametrize("name", ["architect", "coder", "universal"])
def test_only_who_cannot_edit_texts_is_given_patches_too(name: str) -> None:
    patches = {"apply_patch", "apply_patch_review"}
    everything, seed = ExecutorTools(supported=frozenset(CATALOGUE)), ExecutorTools()
    agent = agents()[name]
    given, both = agent.for_executor(everything, patches=False).tools, agent.for_executor(everything).tools
    assert given.keys() == both.keys() - patches
    assert "edit_file" in given
    assert agent.for_executor(seed, patches=False).tools.keys() >= patches, "seed clients have no other"
    without_edits = replace(agent, tools={tool: agent.tools[tool] for tool in agent.tools if tool != "edit_file"})
    assert without_edits.for_executor(everything, patches=False).tools.keys() >= patches


def test_a_model_may_be_kept_from_delegating() -> None:
    everything, agent = ExecutorTools(supported=frozenset(CATALOGUE)), agents()["universal"]
    given, all_tools = agent.for_executor(everything, subagents=False).tools, agent.for_executor(everything).tools
    assert given.keys() == all_tools.keys() - {"delegate"}
    assert "delegate" in all_tools


def test_the_architect_writes_markdown_and_nothing_else() -> None:
    world, _ = calling(
        ("write_file", {"path": "src/main.py", "content": "x"}),
        ("move_file", {"from": "plan.md", "to": "plan.py"}),
        ("apply_patch", {"diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"}),
        ("apply_patch", {"diff": "not a diff"}),
        ("write_file", {"path": "docs/plan.md", "content": "# CompiledSchema"}),
        default_agent="architect",
    )
    (asked,) = world.of_type("tool_call")
    assert asked["arguments"]["path"] == "docs/plan.md", "the client never sees the other calls"
    refused = [json.loads(content)["error"] for role, content in world.history() if role == "tool"]
    assert [error["code"] for error in refused] == ["PERMISSION_DENIED"] * 4
    assert "*.md, not on src/main.py" in refused[0]["message"]


def test_a_human_may_send_the_architects_text_where_they_like() -> None:
    world, (call_id,) = calling(("write_file", {"path": "plan.md", "content": "x"}), default_agent="architect")
    world.decision(call_id, "edit", modified_arguments={"path": "plan.txt", "content": "x"})
    assert world.of_type("tool_call")[-1]["arguments"]["path"] == "plan.txt"


def test_a_tool_that_is_not_the_agents_is_refused_also_where_a_model_names_it() -> None:
    world, _ = calling(WRITE, default_agent="ask")
    assert world.of_type("tool_call") == []
    assert json.loads(world.history()[-1][1])["error"]["code"] == "TOOL_NOT_FOUND"
