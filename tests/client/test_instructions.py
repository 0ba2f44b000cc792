"""AGENTS.md files become context files, and nothing outside the workspace does."""

import asyncio
from pathlib import Path

from codelab_client.tools.executor import Executor
from codelab_client.tools.memory import MemoryWorkspace
from codelab_client.tools.workspace import DiskWorkspace

from tests.frames import check_sent


def test_the_topmost_file_has_its_content_and_nested_ones_their_names() -> None:
    files = {("b", "AGENTS.md"): b"b", ("AGENTS.md",): "é".encode(), ("a", "x", "AGENTS.md"): b"x", ("a", "y"): b""}
    found = asyncio.run(Executor(MemoryWorkspace(files)).instructions())
    assert found == [{"path": "AGENTS.md", "content": "é"}, {"path": "b/AGENTS.md"}, {"path": "a/x/AGENTS.md"}]
    for data in found:
        check_sent({"type": "context_update", "action": "add_file", "data": data})


def test_there_are_at_most_as_many_as_a_session_takes_and_no_large_content() -> None:
    files = {(f"{number:02}", "AGENTS.md"): b"" for number in range(30)}
    files |= {("AGENTS.md",): b"x" * 300_001, ("a\nb", "AGENTS.md"): b""}
    found = asyncio.run(Executor(MemoryWorkspace(files)).instructions())
    assert len(found) == 20
    assert found[0] == {"path": "AGENTS.md"}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/AGENTS.md").symlink_to("../secret")
    (tmp_path / "ws/sub").symlink_to("..")
    assert asyncio.run(Executor(DiskWorkspace(tmp_path / "ws")).instructions()) == []
