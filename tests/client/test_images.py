"""Which paths in a message are images."""

from pathlib import Path

import pytest
from codelab_client.terminal.commands import is_command
from codelab_client.terminal.images import ImageError, attached

LIMITS = {"attachments": 2, "image_bytes": 1_000}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.png", "b c.PNG", "d.jpg"):
        (tmp_path / name).write_bytes(PNG)
    (tmp_path / "e.webp").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    (tmp_path / "text.png").write_text("a text")
    (tmp_path / "large.png").write_bytes(PNG + bytes(1_000))
    (tmp_path / "folder.png").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see @a.png.", ["a.png"]),
        ("{0}/a.png", ["a.png"]),
        ("what is '{0}/b c.PNG'?", ["b c.PNG"]),
        ('"{0}/b c.PNG", please', ["b c.PNG"]),
        ("{0}/b\\ c.PNG {0}/d.jpg {0}/d.jpg", ["b c.PNG", "d.jpg"]),
        ("file://{0}/b%20c.PNG", ["b c.PNG"]),
        ("@e.webp", ["e.webp"]),
        ("rename a.png to b.png", []),
        ("ann@a.png https://host{0}/a.png", []),
        ("{0}/nowhere.png @folder.png @text.txt", []),
        ("~nobody-has-this-name/a.png @\0.png", []),
    ],
)
def test_a_pasted_path_or_a_mention_is_an_image(folder: Path, text: str, names: list[str]) -> None:
    found = attached(text.replace("{0}", str(folder)), folder, LIMITS)
    assert [one["name"] for one in found] == names
    assert attached(text.replace("{0}", str(folder)), folder, {}) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@text.png", "is no PNG"),
        ("@large.png", "more than the 1,000 bytes"),
        ("@a.png @d.jpg @e.webp", "names 3 images; this server takes 2 at most"),
    ],
)
def test_an_image_that_cannot_be_sent_is_named(folder: Path, text: str, why: str) -> None:
    with pytest.raises(ImageError, match=why):
        attached(text, folder, LIMITS)


def test_the_type_is_that_of_the_content(folder: Path) -> None:
    assert [one["media_type"] for one in attached("@d.jpg @e.webp", folder, LIMITS)] == ["image/png", "image/webp"]


def test_a_message_may_begin_with_a_path() -> None:
    assert all(map(is_command, ("/help", "/undo others", "/agent a/b")))
    assert not any(map(is_command, ("/home/ann/a.png see", "hi /help")))
