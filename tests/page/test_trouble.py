"""What goes wrong around the page: tokens, restarts, answers of any size and number."""

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from codelab_local import LocalCloud
from websockets.sync.client import connect

from tests.conftest import TEMPLATE
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations

SECRET = "a secret that is long enough for the purpose"

pytestmark = pytest.mark.deep


def token(secret: str, user: str = "ann") -> str:
    now = int(time.time())
    return jwt.encode({"sub": user, "iat": now, "exp": now + 600}, secret, "HS256")


def test_a_wrong_token_is_refused_and_a_good_one_works(open_tab: OpenTab, model: ScriptedModel) -> None:
    environment = {**model.environment, "AUTH_MODE": "jwt", "JWT_SECRET": SECRET}
    with LocalCloud(TEMPLATE, environment=environment) as guarded:
        tab = open_tab(at=guarded)
        field = tab.page.get_by_label("Token", exact=True)
        field.fill(token("another secret, which is long enough as well"))
        tab.press("Use it")
        refusal = tab.page.get_by_role("alert").filter(has_text="The server does not accept this token.")
        refusal.wait_for()
        assert "Bearer" not in refusal.inner_text(), "that is for programs"
        assert violations(tab) == []
        field.fill(token(SECRET))
        tab.press("Use it")
        tab.online()
        tab.say(model.script("token", Says("Hello, Ann.")))
        tab.ended()
        assert tab.answers == ["Hello, Ann."]
        stored = "() => JSON.stringify({...localStorage}) + document.cookie"
        assert "eyJ" not in tab.run(stored), "a token ends with its tab"


def test_too_many_connections_are_told_and_waited_for(open_tab: OpenTab, model: ScriptedModel) -> None:
    environment = {**model.environment, "AUTH_MODE": "jwt", "JWT_SECRET": SECRET, "CONNECTIONS_PER_MINUTE": "1"}
    with LocalCloud(TEMPLATE, environment=environment) as guarded:
        while time.time() % 60 > 40:  # the quota's minute must not end during the test
            time.sleep(1)
        headers = {"Authorization": f"Bearer {token(SECRET)}"}
        with connect(guarded.url("crowd"), additional_headers=headers):
            tab = open_tab("crowd", at=guarded)
            tab.page.get_by_label("Token", exact=True).fill(token(SECRET))
            tab.press("Use it")
            tab.page.get_by_text(re.compile(r"Too many connections, trying again in \d+ s")).last.wait_for()
            assert tab.page.locator(".link.limited").count() == 1
            tab.online()


def test_a_restarted_server_is_found_again(open_tab: OpenTab, model: ScriptedModel, tmp_path: Path) -> None:
    environment = {**model.environment, "STATE_DIR": str(tmp_path)}
    with LocalCloud(TEMPLATE, environment=environment) as first:
        port = first.info["port"]
        tab = open_tab(at=first).online()
        tab.say(model.script("before", Says("Before.")))
        tab.ended()
        first.stop()
        tab.page.locator(".link.offline").wait_for(state="attached")
        with LocalCloud(TEMPLATE, environment=environment, port=port):
            tab.online()
            tab.say(model.script("after", Says("After.")))
            tab.ended(2)
            assert tab.answers == ["Before.", "After."]


def test_a_line_of_megabytes_is_shown_in_part(tab: Tab, model: ScriptedModel) -> None:
    tab.say(model.script("large", Says("a[*" * 1_700_000, piece=60_000)))
    tab.ended()
    assert tab.run("() => document.querySelector('.answer').textContent.length") < 100_000
    tab.say(model.script("still", Says("Still here.")))
    tab.ended(2)
    assert tab.answers[-1] == "Still here."


def test_a_message_over_a_quota_says_when_it_can_be_sent_again(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab()
    refused = threading.Event()

    def connect(socket: Any) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: socket.send(message))

        def take(message: Any) -> None:
            frame = json.loads(message)
            if frame["type"] != "user_message" or refused.is_set():
                server.send(message)
                return
            refused.set()
            error = {
                "type": "error",
                "error_code": "RATE_LIMITED",
                "message": "Too many turns",
                "retryable": True,
                "details": {},
            }
            socket.send(json.dumps({**error, "retry_after": 3, "client_msg_id": frame["client_msg_id"]}))

        socket.on_message(take)

    tab.page.route_web_socket("**/ws/**", connect)
    tab.page.reload()
    tab.online()
    tab.say(model.script("over-quota", Says("Now.")))
    tab.page.get_by_role("alert").get_by_text("Too many turns").wait_for()
    again = tab.page.get_by_role("button", name="Try again")
    assert again.inner_text() in {f"Try again in {seconds} s" for seconds in (3, 2, 1)}
    assert again.is_disabled()
    assert violations(tab) == []
    tab.page.get_by_role("button", name="Try again", exact=True).click()
    tab.ended()
    assert tab.answers == ["Now."]


def test_ten_thousand_frames_do_not_stall(open_tab: OpenTab, model: ScriptedModel) -> None:
    """As one message of 10,000 pieces, with the inspector open. Only the rows on the screen are elements."""
    tab = open_tab()
    sockets: list[Any] = []

    def connect(socket: Any) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: socket.send(message))
        socket.on_message(lambda message: server.send(message))
        sockets.append(socket)

    tab.page.route_web_socket("**/ws/**", connect)
    tab.page.reload()
    tab.online()
    tab.say(model.script("many", Says("Hello.")))
    tab.ended()
    tab.press("Inspector")
    last = max(int(text) for text in tab.page.locator(".row .seq").all_inner_texts() if text)
    tab.run("""() => {
      window.longest = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
      }).observe({ type: 'longtask' });
    }""")
    for n in range(10_000):
        word = f"w{n} " if n % 40 else f"\n\nw{n} "
        frame = {"type": "assistant_message", "token": word, "content": word, "is_final": n == 9_999}
        sockets[-1].send(json.dumps({**frame, "message_id": "m", "turn_id": "t", "seq": last + 1 + n}))
    tab.page.locator(".answer:not(.writing)").nth(1).wait_for()
    assert tab.answers[1].split() == [f"w{n}" for n in range(10_000)]
    assert tab.page.locator(".row").count() < 100
    assert tab.run("() => window.longest") < 2_000
