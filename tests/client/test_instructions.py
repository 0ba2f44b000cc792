"""AGENTS.md files reach the model as the project's instructions, and nothing outside the workspace does."""

import asyncio
from pathlib import Path

from codelab_client.session import events as on
from codelab_client.tools.executor import Executor
from codelab_client.tools.instructions import topmost_instructions
from codelab_client.tools.memory import MemoryWorkspace
from codelab_client.tools.tree import Tree
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.conftest import Codelab, Open
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.frames import check_sent


def found(files: dict[tuple[str, ...], bytes]) -> list[dict[str, str]]:
    instructions = asyncio.run(Executor(MemoryWorkspace(files)).instructions())
    check_sent({"type": "hello", "instructions": instructions})
    return instructions


def test_the_topmost_file_comes_first_and_what_is_no_text_is_left_out() -> None:
    files = {("b", "AGENTS.md"): b"b", ("AGENTS.md",): "é".encode(), ("a", "x", "AGENTS.md"): b"x", ("a", "y"): b""}
    files |= {("c", "AGENTS.md"): b"\xff", ("d", "AGENTS.md"): b" \n", ("a\nb", "AGENTS.md"): b"a"}
    assert [(file["path"], file["content"]) for file in found(files)] == [
        ("AGENTS.md", "é"),
        ("b/AGENTS.md", "b"),
        ("a/x/AGENTS.md", "x"),
    ]


def test_there_are_at_most_as_many_and_as_long_ones_as_a_session_takes() -> None:
    assert len(found({(f"{number:02}", "AGENTS.md"): b"x" for number in range(30)})) == 8
    (long,) = found({("AGENTS.md",): b"x" * 50_000})
    assert (len(long["content"]), long["content"][-10:]) == (32_000, "[cut here]")
    many = found({(f"{number:02}", "AGENTS.md"): "é".encode() * 32_000 for number in range(8)})
    assert len(many) == 1 or sum(len(file["content"].encode()) for file in many) <= 128_000


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/AGENTS.md").symlink_to("../secret")
    (tmp_path / "ws/sub").symlink_to("..")
    assert asyncio.run(Executor(DiskWorkspace(tmp_path / "ws")).instructions()) == []
    assert topmost_instructions(Tree(tmp_path / "ws")) == []


async def test_the_model_reads_them_and_newer_ones_replace_them(new_session: Open, model: ScriptedModel) -> None:
    one, two = model.script("agents-md-1", Says("Hello")), model.script("agents-md-2", Says("Hello"))

    async def said(session: object, prompt: str) -> None:
        async for _ in session.prompt(prompt):  # type: ignore[attr-defined]
            pass

    async with new_session(instructions=[{"path": "AGENTS.md", "content": "Use tabs."}]) as session:
        await said(session, one)
        await session.instruct([{"path": "b/AGENTS.md", "content": "Use spaces."}])
        await said(session, two)
        assert isinstance(session.info, on.SessionInfo)
    assert "Use tabs." in str(model.requests["agents-md-1"][0]["messages"])
    second = str(model.requests["agents-md-2"][0]["messages"])
    assert "Use spaces." in second
    assert "Use tabs." not in second


def test_codelab_exec_brings_nested_files_too(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    (folder / "sub").mkdir()
    (folder / "AGENTS.md").write_text("Be brief.")
    (folder / "sub" / "AGENTS.md").write_text("Be exact.")
    script = model.script("agents-md-exec", Says("Yes"))
    done = codelab("exec", script)
    assert done.returncode == 0, done.stderr
    asked = str(model.requests["agents-md-exec"][0]["messages"])
    assert "Be brief." in asked
    assert "Be exact." in asked
