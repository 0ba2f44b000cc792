"""A mention names a file of the workspace, and no link that a repository brings leads out of it."""

from pathlib import Path
from typing import Any

import pytest
from codelab_client.acp import prompts
from codelab_client.acp.mentions import confined
from codelab_client.folders import Folders
from codelab_client.terminal.images import ImageError, attached

LIMITS = {"attachments": 5, "image_bytes": 1_000}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with links that lead out of it, and some that do not."""
    secret = tmp_path / "home"
    secret.mkdir()
    (secret / "id.png").write_bytes(PNG + b"secret")
    folder = tmp_path / "workspace"
    (folder / "img").mkdir(parents=True)
    (folder / "img/a.png").write_bytes(PNG)
    (folder / "same.png").symlink_to("img/a.png")
    (folder / "out.png").symlink_to(secret / "id.png")
    (folder / "relative.png").symlink_to("../home/id.png")
    (folder / "twice.png").symlink_to("out.png")
    (folder / "folder").symlink_to(secret)
    (folder / "home").symlink_to("img/../../home")
    return folder


@pytest.mark.parametrize(
    "mention", ["out.png", "relative.png", "twice.png", "folder/id.png", "home/id.png", "../home/id.png", "./out.png"]
)
def test_a_mention_in_the_terminal_follows_no_link_out_of_the_workspace(folder: Path, mention: str) -> None:
    with pytest.raises(ImageError, match="leads out of the workspace"):
        attached(f"look at @{mention}", folder, LIMITS)


def test_a_mention_with_a_whole_path_is_not_one_of_the_workspace(folder: Path) -> None:
    with pytest.raises(ImageError, match="leads out of the workspace"):
        attached(f"look at @{folder.parent}/home/id.png", folder, LIMITS)
    assert len(attached(f"look at {folder.parent}/home/id.png", folder, LIMITS)) == 1  # pasted by the user


def test_a_link_inside_the_workspace_is_followed(folder: Path) -> None:
    assert len(attached("look at @same.png and @img/a.png", folder, LIMITS)) == 2


@pytest.mark.parametrize(
    "name", ["out.png", "relative.png", "twice.png", "folder/id.png", "home/id.png", "../home/id.png"]
)
@pytest.mark.parametrize("kind", ["text", "blob", "image"])
def test_what_an_editor_embeds_for_a_link_is_not_sent(folder: Path, name: str, kind: str) -> None:
    uri = f"file://{folder}/{name}"
    block: dict[str, Any] = {"type": "resource", "resource": {"uri": uri, "text": "secret"}}
    if kind == "blob":
        block = {"type": "resource", "resource": {"uri": uri, "blob": "c2VjcmV0", "mimeType": "image/png"}}
    if kind == "image":
        block = {"type": "image", "uri": uri, "data": "c2VjcmV0", "mimeType": "image/png"}
    folders = Folders(folder)
    message = prompts.message(confined([block], folders), folders, prompts.Limits(attachments=5, attached_chars=1_000))
    assert message.attachments == []
    assert "secret" not in message.text
    assert name in message.text


def test_what_an_editor_embeds_of_the_workspace_is_sent(folder: Path) -> None:
    block = {"type": "resource", "resource": {"uri": f"file://{folder}/same.png", "text": "x"}}
    elsewhere = {"type": "resource", "resource": {"uri": f"file://{folder.parent}/home/notes.md", "text": "y"}}
    folders = Folders(folder)
    message = prompts.message(
        confined([block, elsewhere], folders), folders, prompts.Limits(attachments=5, attached_chars=1_000)
    )
    assert [one["content"] for one in message.attachments] == ["x", "y"]  # the second one was chosen by its whole path
