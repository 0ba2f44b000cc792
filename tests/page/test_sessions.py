"""Sessions and the address: a visit leaves none, and each that has a message can be found again."""

import json
import re
import urllib.request
from typing import Any

import pytest
from codelab_local import LocalCloud

from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations


def listed(tab: Tab) -> list[str]:
    """The titles in the list of sessions."""
    return [str(title) for title in tab.page.locator(".sessions .one span").all_inner_texts()]


@pytest.mark.deep  # test_conversation.py reloads an address
def test_a_session_is_listed_and_has_an_address_once_it_has_a_message(open_tab: OpenTab, model: ScriptedModel) -> None:
    sockets: list[str] = []
    tab = open_tab("").online()
    tab.page.on("websocket", lambda socket: sockets.append(socket.url))
    start = f"{tab.origin}/"
    assert tab.page.url == start
    tab.page.reload()
    tab.online()
    tab.page.reload()
    tab.online()
    assert len({url.partition("?")[0] for url in sockets}) == 1, "a reload stays in the session, also without a message"
    assert tab.page.url == start
    tab.say(model.script("first-of-all", Says("Yes.")))
    tab.ended()
    address = tab.page.url
    assert re.fullmatch(re.escape(start) + r"#/s/[\w-]+", address)
    tab.page.locator(".sessions .current", has_text="first-of-all").wait_for(state="attached")
    tab.page.reload()
    tab.ended()
    assert tab.page.url == address
    assert tab.answers == ["Yes."]

    for _ in range(2):  # the second time, it is there already
        tab.press("Sessions")
        tab.press("New session")
        tab.page.locator(".welcome").wait_for()
        tab.online()
        assert tab.page.url == start
    tab.page.go_back()
    tab.ended()
    assert tab.page.url == address
    tab.page.go_forward()
    tab.page.locator(".welcome").wait_for()
    assert tab.page.url == start
    tab.press("Sessions")
    tab.page.locator(".sessions .one", has_text="first-of-all").wait_for()
    assert "Untitled" not in listed(tab)
    search = tab.page.get_by_role("searchbox", name="Search sessions")
    search.fill("no-such-words")
    tab.page.get_by_text("No session has these words").wait_for()
    search.fill("")
    tab.page.keyboard.press("Escape")
    tab.page.locator(".drawer").wait_for(state="detached")
    tab.press("Sessions")
    tab.page.locator(".drawer").wait_for()
    tab.page.locator(".welcome").click(position={"x": 300, "y": 5})
    tab.page.locator(".drawer").wait_for(state="detached")
    tab.press("Sessions")

    tab.page.route("**/api/v1/sessions?**", lambda route: route.abort())
    tab.page.locator(".sessions .one", has_text="first-of-all").click()
    tab.ended()
    tab.press("Sessions")
    trouble = tab.page.locator(".sessions .trouble")
    trouble.get_by_role("button", name="Try again").wait_for()
    tab.page.unroute("**/api/v1/sessions?**")
    trouble.get_by_role("button", name="Try again").click()
    trouble.get_by_role("button").wait_for(state="detached")

    other = open_tab(address.rpartition("/")[2], beside=tab)
    other.ended()
    assert other.answers == ["Yes."]
    other.page.route_web_socket("**/ws/**", lambda _socket: None)
    other.page.reload()
    other.page.locator("h1", has_text="first-of-all").wait_for()  # before it is connected


@pytest.mark.deep
def test_the_way_back_does_not_lead_to_a_deleted_session(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab("").online()
    tab.say(model.script("to-be-deleted", Says("Yes.")))
    tab.ended()
    tab.press("Sessions")
    current = tab.page.locator(".sessions .current")
    current.wait_for()
    assert violations(tab) == []
    current.get_by_role("button", name="Actions for").click()
    tab.press("Delete")
    assert violations(tab) == []
    tab.page.get_by_role("button", name="for good").click()
    tab.page.locator(".welcome").wait_for()
    assert tab.page.url == f"{tab.origin}/"
    tab.page.locator(".sessions .one", has_text="to-be-deleted").wait_for(state="detached")


@pytest.mark.deep
def test_an_address_that_names_no_session_is_left(open_tab: OpenTab) -> None:
    tab = open_tab("")
    for fragment in ("s/..", "s/%2e%2e%2f", "s/<img src=x onerror=alert(1)>", "/evil.test", f"s/{'a' * 129}"):
        tab.page.goto(f"{tab.origin}/#/{fragment}")
        tab.page.reload()
        tab.online()
        assert tab.page.url == f"{tab.origin}/", fragment


def test_a_hostile_title_is_text(open_tab: OpenTab, cloud: LocalCloud, model: ScriptedModel) -> None:
    tab = open_tab("").online()
    tab.say(model.script("hostile-title", Says("Yes.")))
    tab.ended()
    body = json.dumps({"title": "<img src=x onerror='window.owned=1'>\u202eevil"}).encode()
    session = tab.page.url.rpartition("/")[2]
    headers = {"Content-Type": "application/json"}
    change: Any = urllib.request.Request(
        f"{cloud.http}/api/v1/sessions/{session}", data=body, headers=headers, method="PATCH"
    )
    urllib.request.urlopen(change, timeout=30).close()
    tab.page.reload()
    tab.ended()
    tab.press("Sessions")
    tab.page.locator(".sessions .current span", has_text="<img src=x onerror='window.owned=1'>⟨U+202E⟩evil").wait_for()
    assert tab.run("() => window.owned") is None
