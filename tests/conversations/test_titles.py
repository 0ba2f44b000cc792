"""What a session is called, with the demonstration model."""

from collections.abc import Iterator

import pytest
from codelab_local import LocalCloud

from tests.conftest import Open, opener


@pytest.fixture
def demo_ide(demo_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(demo_cloud)


def test_a_session_is_named_by_its_first_answer(demo_ide: Open) -> None:
    session = demo_ide("titled", extensions=True)
    session.say("Hello there, what can you do for me today, please?")
    assert session.expect("turn_end")["title"] == "Hello there, what can you do"
    later = demo_ide("titled")
    later.send("hello")
    assert later.expect("session_info")["title"] == "Hello there, what can you do"
