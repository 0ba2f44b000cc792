"""What a session is called, with the demonstration model: titles are on there."""

from collections.abc import Iterator

import pytest
from codelab_local import LocalCloud

from tests.conftest import Open, opener


@pytest.fixture
def demo_ide(demo_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(demo_cloud)


def test_a_session_is_named_after_its_first_turn_when_that_is_over(demo_ide: Open) -> None:
    session = demo_ide("titled", extensions=True)
    session.say("Hello there, what can you do for me today, please?")
    session.idle()
    assert session.expect("session_info")["title"] == "Hello there, what can you do"
    later = demo_ide("titled")
    later.send("hello")
    assert later.expect("session_info")["title"] == "Hello there, what can you do"
