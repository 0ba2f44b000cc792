"""A gateway that throttles is not stormed by the page; the user reads what it waits for, and nothing is lost."""

import json
import re
from typing import Any

import pytest

from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab

#: Frames that one page may send in 30 s of throttling.
MOST_FRAMES = 12
REFUSAL = json.dumps({"message": "Too Many Requests", "connectionId": "c=", "requestId": "r="})


@pytest.mark.deep  # the page is the TypeScript client, whose own storm is in every run
def test_a_throttling_gateway_gets_a_dozen_frames_and_the_turn_ends_well(
    open_tab: OpenTab, model: ScriptedModel
) -> None:
    tab = open_tab()
    refused: list[str] = []
    throttles = False

    def connect(socket: Any) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: socket.send(message))

        def take(message: str) -> None:
            if throttles:
                refused.append(json.loads(message)["type"])
                socket.send(REFUSAL)
            else:
                server.send(message)

        socket.on_message(take)

    tab.page.route_web_socket("**/ws/**", connect)
    tab.page.clock.install()
    tab.page.reload()
    tab.online()
    throttles = True
    tab.say(model.script("storm-page", Says("Well.")))
    tab.page.locator(".link.busy").wait_for(state="attached")
    tab.page.get_by_text(re.compile(r"The server is busy, trying again in \d+ s")).first.wait_for()
    for _ in range(30):
        tab.page.clock.run_for(1_000)
        tab.page.wait_for_timeout(20)  # the gateway's answers come in the real time
    throttles = False
    print(f"storm on the page: {len(refused)} frames in 30 s ({', '.join(refused)})")  # noqa: T201 - the figures
    assert 2 < len(refused) <= MOST_FRAMES
    assert set(refused[1:]) <= {"user_message", "resume"}
    for _ in range(60):
        if tab.page.locator(".link.online").count():
            break
        tab.page.clock.run_for(1_000)
        tab.page.wait_for_timeout(20)
    tab.ended()
    assert tab.answers == ["Well."]
