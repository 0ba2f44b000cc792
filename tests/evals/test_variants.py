"""Variants of the agent: each changes what its name says in a copy, and halves of the rules measure each rule alike."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from codelab.agents import read_agents

from evals import agents, proxy, report, runner, variants
from tests.evals.command import run
from tests.evals.made_task import has_bubblewrap, made
from tests.evals.test_report import line
from tests.fakes.model.wire import ScriptedServer, saying

ROOT = Path(__file__).resolve().parents[2]
AGENTS = "layers/codelab/codelab/agents"


def changed(names: Sequence[str], folder: Path) -> list[str]:
    """The files that differ from the checkout."""
    code = variants.copy(ROOT, names, folder)
    files = [path.relative_to(code) for path in code.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return [str(path) for path in files if (ROOT / path).read_bytes() != (code / path).read_bytes()]


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_a_variant_changes_one_file(name: str, tmp_path: Path) -> None:
    assert len(changed([name], tmp_path)) == 1


def test_what_edits_a_file_is_what_the_name_says(tmp_path: Path) -> None:
    edits = {"write_file", "edit_file", "apply_patch"}
    for name, expected in (
        ("whole-files", {"write_file"}),
        ("diffs", {"write_file", "apply_patch"}),
        ("dozen-tools", {"write_file", "edit_file"}),
    ):
        variants.copy(ROOT, [name], tmp_path / name)
        tools = read_agents(tmp_path / name / AGENTS)["universal"].tools
        assert edits & tools.keys() == expected
        assert name != "dozen-tools" or len(tools) == 12


def test_a_rule_is_left_out_whole_and_alone(tmp_path: Path) -> None:
    default = read_agents(ROOT / AGENTS)["universal"].prompt
    for rule, (_, text) in variants.rules(ROOT).items():
        variants.copy(ROOT, [f"no-{rule}"], tmp_path / rule)
        prompt = read_agents(tmp_path / rule / AGENTS)["universal"].prompt
        assert (prompt + "\n").replace(text, "") == prompt + "\n"
        assert len(default) - len(prompt) == len(text) or prompt == default.removesuffix(text.rstrip())
        assert text.startswith("- ")
        assert text.count("\n- ") == 0


@pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")
def test_what_the_model_is_told_is_the_variant(tmp_path: Path) -> None:
    code = variants.copy(ROOT, ["no-catalogue", "no-paths-are-relative-to-the"], tmp_path / "code")
    answer = saying(json.dumps({"title": "Hi", "message": "Hello.", "calls": []}))
    said = []
    for agent in (
        agents.Codelab(provider="llama.cpp"),
        agents.Codelab(provider="llama.cpp", code=code, variants=("x",)),
    ):
        with ScriptedServer(answer) as server:
            endpoint = proxy.Endpoint(server.url, "m", "", {})
            job = runner.Job(agent.name, agent, made(tmp_path / "task"), 0)
            run = runner.attempt(job, endpoint, tmp_path / "out", seed=0, budget=runner.Budget())
            assert (run["answer"], run["variants"]) == ("Hello.", list(agent.variants))
            said.append(json.dumps(server.requests[0]["messages"]))
    default, variant = said
    for text in ("Paths are relative to the workspace", "Each Call is one of these"):
        assert text in default
        assert text not in variant


def test_a_variant_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--variants", "default,no-whims") == 2
    assert "there is no variant no-whims; there are no-catalogue, " in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--agents", "codelab,idle"), ("--agents", "idle"), ("--strategies", "json,tool")])
def test_halves_are_for_one_agent(more: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--halves", *more) == 2
    assert "--halves is for codelab alone, asked in one way" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--code", str(tmp_path), "--halves") == 2
    assert f"{tmp_path} has no layers/" in capsys.readouterr().err


def test_a_checkout_without_what_changes_is_refused(tmp_path: Path) -> None:
    variants.copy(ROOT, [], tmp_path / "older")
    table = tmp_path / "older/layers/codelab/codelab/llm/profiles.py"
    table.write_text(table.read_text("utf-8").replace('reads_calls="qwen", ', ""), "utf-8")
    with pytest.raises(variants.VariantError, match=r"profiles\.py has no 'reads_calls"):
        variants.copy(tmp_path / "older", ["calls-in-form"], tmp_path / "copy")


def test_each_task_is_made_with_each_variant_and_strategy(jobs: list[runner.Job], tmp_path: Path) -> None:
    run(tmp_path, "--variants", "default,whole-files+no-catalogue", "--strategies", "native,json")
    asked = [(job.label, getattr(job.agent, "variants", None)) for job in jobs[:4]]
    both = ("whole-files", "no-catalogue")
    assert asked == [
        ("codelab default native", ()),
        ("codelab default json", ()),
        ("codelab whole-files+no-catalogue native", both),
        ("codelab whole-files+no-catalogue json", both),
    ]


def test_a_task_is_made_with_all_rules_of_which_each_half_has_some(jobs: list[runner.Job], tmp_path: Path) -> None:
    run(tmp_path, "--halves", "--tries", "2")
    known = {f"no-{rule}" for rule in variants.rules(ROOT)}
    tried: dict[tuple[str, int], list[set[str]]] = {}
    for job in jobs:
        assert isinstance(job.agent, agents.Codelab)
        tried.setdefault((job.task.name, job.attempt), []).append(set(job.agent.variants))
    assert len(tried) == 4
    assert all(one | other == known and not one & other for one, other in tried.values())
    assert len({frozenset(one) for one, _ in tried.values()}) == 3, (
        "two tasks, and the second attempt in the next block"
    )


def test_no_rule_stands_more_often_with_another_than_without_it() -> None:
    known = list(variants.rules(ROOT))
    pairs = variants.halves(known)
    for one, other in combinations(known, 2):
        together = sum((f"no-{one}" in left_out) == (f"no-{other}" in left_out) for left_out, _ in pairs)
        assert together == len(pairs) / 2


def test_the_effect_of_a_rule_is_what_its_presence_changes() -> None:
    """Of two rules, `read` is what solves a task, and `brief` does nothing."""
    runs: list[dict[str, Any]] = []
    for task, left_out in (("a", ["no-read"]), ("b", ["no-read", "no-brief"]), ("c", []), ("d", ["no-brief"])):
        rest = [name for name in ("no-read", "no-brief") if name not in left_out]
        for label, names in zip(report.HALVES, (left_out, rest), strict=True):
            runs.append(line(label, task, "no-read" not in names) | {"variants": names})
    runs.append(line(report.HALVES[0], "e", True) | {"variants": ["no-read"]})  # its other half is still to come
    found = report.summary(runs)["rules"]
    assert found["read"] == {"pairs": 4, "without": 0, "with": 4, "mean": 1, "low": 1, "high": 1}
    assert (found["brief"]["without"], found["brief"]["with"], found["brief"]["mean"]) == (2, 2, 0)
    assert "| brief" in report.markdown(report.summary(runs))
    json.dumps(found)
