"""The page has a browser told that the agent waits, also while it is closed: the setting, its service worker, the link.

No browser reaches a push service from here, so `PushManager` is a stand-in, and so are the answers of a server that
pushes, which no local cloud does. The rest is real: the worker, the page's policy, the push (of DevTools), the notice.
"""

import json
from typing import Any

import pytest

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.waiting import until

KEY = "B" + "A" * 86
ENDPOINT = "https://updates.push.services.mozilla.com/wpush/v2/x"
LABEL = "Notify me when this page is closed, too"
MANAGER = """
window.asked = [];
const key = () => Uint8Array.from(JSON.parse(localStorage.made));
const unsubscribe = async () => { delete localStorage.made; window.asked.push('ended'); return true; };
PushManager.prototype.subscribe = async function ({ userVisibleOnly, applicationServerKey }) {
  window.asked.push([userVisibleOnly, applicationServerKey.length, applicationServerKey[0]]);
  localStorage.made = JSON.stringify([...applicationServerKey]);
  return this.getSubscription();
};
PushManager.prototype.getSubscription = async () => localStorage.made
  ? { endpoint: 'ENDPOINT', unsubscribe, options: { applicationServerKey: key() } }
  : null;
""".replace("ENDPOINT", ENDPOINT)


class Server:
    """Answers `/api/v1/push` as a server with WebPush would. `asked` are the requests."""

    def __init__(self, tab: Tab) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.key, self.refuses = KEY, False
        tab.page.route("**/api/v1/push**", self._answer)

    def _answer(self, route: Any) -> None:
        request = route.request
        path = request.url.partition("/api/v1")[2]
        self.asked.append((request.method, path, request.post_data_json if request.post_data else None))
        answers: dict[str, Any] = {
            "GET": {"application_server_key": self.key},
            "PUT": {"id": "0" * 32, "expires_at": ""},
            "DELETE": {"status": "deleted"},
        }
        if self.refuses and request.method == "PUT":
            error = {"code": "INVALID_ARGUMENTS", "message": "endpoint is of no push service", "details": {}}
            route.fulfill(status=422, body=json.dumps({"error": error}), content_type="application/json")
            return
        route.fulfill(status=200, body=json.dumps(answers[request.method]), content_type="application/json")


def notices(tab: Tab) -> list[list[str]]:
    """What the service worker shows."""
    [worker] = tab.context.service_workers
    found: list[list[str]] = worker.evaluate(
        "async () => (await registration.getNotifications()).map(({ title, body }) => [title, body])"
    )
    return found


def deliver(tab: Tab) -> None:
    """A push comes, with nothing in it."""
    devtools = tab.context.new_cdp_session(tab.page)
    registered: list[Any] = []
    devtools.on("ServiceWorker.workerRegistrationUpdated", lambda told: registered.extend(told["registrations"]))
    devtools.send("ServiceWorker.enable")
    until(lambda: tab.page.wait_for_timeout(10) or registered)
    devtools.send(
        "ServiceWorker.deliverPushMessage",
        {"origin": tab.origin, "registrationId": registered[0]["registrationId"], "data": ""},
    )
    devtools.detach()


@pytest.mark.deep
def test_a_browser_is_told_by_the_users_wish_only(open_tab: OpenTab) -> None:
    tab = open_tab(permissions=["notifications"])
    tab.page.add_init_script(MANAGER)
    tab.page.reload()
    tab.online()
    tab.press("Settings")
    box, alert = tab.page.get_by_label(LABEL), tab.page.locator("dialog .problem")
    box.click()
    tab.page.get_by_text("This server sends no notifications to closed pages.").wait_for()
    assert not box.is_checked()
    assert tab.context.service_workers == []
    server = Server(tab)
    box.click()
    until(lambda: tab.page.wait_for_timeout(10) or box.is_checked())
    assert alert.inner_text() == ""
    assert server.asked == [("GET", "/push", None), ("PUT", "/push/subscriptions", {"endpoint": ENDPOINT})]
    assert tab.run("() => window.asked") == [[True, 65, 4]]
    until(lambda: tab.page.wait_for_timeout(10) or tab.context.service_workers)
    tab.page.keyboard.press("Escape")

    [worker] = tab.context.service_workers
    worker.evaluate("show()")
    assert notices(tab) == [], "who looks at the page sees it there"
    tab.page.goto("about:blank")
    deliver(tab)
    until(lambda: tab.page.wait_for_timeout(10) or notices(tab) == [["The agent waits for your decision", ""]])
    worker.evaluate("registration.showNotification('Known', { body: 'write_file a.txt', tag })")
    worker.evaluate("show()")
    assert notices(tab) == [["Known", "write_file a.txt"]], "a push says less than the page"


@pytest.mark.deep
def test_a_browser_that_is_told_no_more_is_forgotten(open_tab: OpenTab) -> None:
    tab = open_tab(permissions=["notifications"])
    tab.page.add_init_script(MANAGER)
    tab.page.reload()
    tab.online()
    server = Server(tab)
    tab.press("Settings")
    box = tab.page.get_by_label(LABEL)
    box.click()
    until(lambda: tab.page.wait_for_timeout(10) or box.is_checked())
    box.click()
    until(lambda: tab.page.wait_for_timeout(10) or len(server.asked) == 3)
    assert server.asked[-1] == ("DELETE", f"/push/subscriptions/{'0' * 32}", None)
    until(lambda: tab.page.wait_for_timeout(10) or tab.run("() => window.asked")[-1] == "ended")
    assert not box.is_checked()
    server.refuses = True
    box.click()
    tab.page.get_by_text("endpoint is of no push service").wait_for()
    assert not box.is_checked()
    assert tab.run("() => window.asked").count("ended") == 2


@pytest.mark.deep
def test_a_browser_is_another_users_no_more(open_tab: OpenTab) -> None:
    """Who signs in where somebody else wanted to be told is told nothing of theirs."""
    tab = open_tab(permissions=["notifications"])
    tab.page.add_init_script(MANAGER)
    tab.page.reload()
    tab.online()
    server = Server(tab)
    tab.press("Settings")
    tab.page.get_by_label(LABEL).click()
    until(lambda: tab.page.wait_for_timeout(10) or tab.run("() => JSON.parse(localStorage['codelab.push']).id") != "")
    tab.run("() => localStorage['codelab.push'] = JSON.stringify({ id: 'x', user: 'bob', at: Date.now() })")
    tab.page.reload()
    tab.online()
    until(lambda: tab.page.wait_for_timeout(10) or tab.run("() => JSON.parse(localStorage['codelab.push']).id") == "")
    assert [method for method, *_ in server.asked] == ["GET", "PUT"], "it may not remove another user's"
    assert tab.run("() => window.asked") == ["ended"]


@pytest.mark.deep
def test_the_server_is_told_again_each_day_and_of_another_key_by_a_new_subscription(open_tab: OpenTab) -> None:
    tab = open_tab(permissions=["notifications"])
    tab.page.add_init_script(MANAGER)
    tab.page.reload()
    tab.online()
    server = Server(tab)
    tab.press("Settings")
    tab.page.get_by_label(LABEL).click()
    until(lambda: tab.page.wait_for_timeout(10) or tab.run("() => JSON.parse(localStorage['codelab.push']).id") != "")
    for key, subscribed in ((KEY, []), (f"B{'B' * 86}", ["ended", [True, 65, 4]])):
        server.key, seen = key, len(server.asked)
        tab.run("() => localStorage['codelab.push'] = JSON.stringify({ id: 'x', user: '', at: 0 })")
        tab.page.reload()
        tab.online()
        until(lambda seen=seen: tab.page.wait_for_timeout(10) or server.asked[seen:][-1:] == server.asked[1:2])  # type: ignore[misc]
        until(lambda: tab.page.wait_for_timeout(10) or tab.run("() => JSON.parse(localStorage['codelab.push']).at") > 0)
        assert tab.run("() => window.asked") == subscribed


@pytest.mark.deep
def test_a_browser_that_refuses_says_so(open_tab: OpenTab) -> None:
    tab = open_tab(permissions=[]).online()
    tab.press("Settings")
    tab.page.get_by_label(LABEL).click()
    tab.page.get_by_text("The browser does not allow notifications of this page.").wait_for()
    assert not tab.page.get_by_label(LABEL).is_checked()


@pytest.mark.deep
def test_a_notice_leads_to_what_waits(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab(permissions=["notifications"])
    tab.page.add_init_script(MANAGER)
    tab.page.reload()
    tab.online()
    tab.say(model.script("waits", Says("", calls=[call("write_file", path="a.txt", content="1")]), Says("Done.")))
    tab.page.locator(".call.asking").wait_for()
    waits = f"{tab.origin}/#/s/{tab.session}"
    other = open_tab(beside=tab, session="")
    other.page.goto(f"{tab.origin}/#/waiting")
    other.page.locator(".call.asking").wait_for()
    assert other.page.url == waits
    other.page.close()

    tab.page.goto(f"{tab.origin}/")
    Server(tab)
    tab.online().press("Settings")
    tab.page.get_by_label(LABEL).click()
    until(lambda: tab.page.wait_for_timeout(10) or tab.context.service_workers)
    tab.page.keyboard.press("Escape")
    tab.context.service_workers[0].evaluate("lead()")
    tab.page.wait_for_url(waits)
    tab.press("Approve")
    tab.ended()
    third = open_tab(beside=tab, session="")
    third.page.goto(f"{tab.origin}/#/waiting")
    third.page.get_by_text("Nothing waits for your decision any more.").wait_for()
