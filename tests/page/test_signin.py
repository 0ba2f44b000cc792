"""The sign-in of the page at an OpenID provider, and attacks on it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from codelab_local import LocalCloud
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.client.sign_in import SignIn
from tests.conftest import TEMPLATE
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations
from tests.waiting import until

pytestmark = pytest.mark.deep


class Provider(SignIn):
    """Publishes the key of its tokens, and lets pages read its answers."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        super().__init__()
        self.headers = {"Access-Control-Allow-Origin": "*"}

    def get(self, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
        if path == "/jwks":
            key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
            return 200, {"keys": [{**key, "kid": "k"}]}
        return super().get(path, query)

    def signed(self, **claims: Any) -> str:
        now = int(time.time())
        body = {"sub": "ann", "iss": self.url, "iat": now, "exp": now + self.seconds, **claims}
        return jwt.encode(body, self._key, algorithm="RS256", headers={"kid": "k"})

    def forget(self) -> None:
        """Be as new."""
        self.discovery, self.token, self.answer, self.identity, self.seconds = {}, {}, {}, {}, 600
        for seen in (self.asked, self.referers, self.revoked):
            seen.clear()

    @property
    def exchanges(self) -> list[dict[str, str]]:
        return [form for form in self.asked if form.get("grant_type") == "authorization_code"]


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    running.forget()
    return running


@pytest.fixture(scope="module")
def guarded(running: Provider, model: ScriptedModel) -> Iterator[LocalCloud]:
    environment = {
        **model.environment,
        "AUTH_MODE": "jwt",
        "JWKS_URL": f"{running.url}/jwks",
        "JWT_ISSUER": running.url,
        "JWT_CLIENT_ID": "codelab-cli",
    }
    with LocalCloud(TEMPLATE, environment=environment) as cloud:
        yield cloud


@pytest.fixture
def arrive(open_tab: OpenTab, guarded: LocalCloud, provider: Provider) -> Iterator[Callable[[], Tab]]:
    """Opens a tab that is not signed in. Only the provider may be asked besides the system."""
    opened: list[Tab] = []

    def open_one() -> Tab:
        opened.append(open_tab(at=guarded))
        return opened[-1]

    yield open_one
    for tab in opened:
        tab.foreign = [url for url in tab.foreign if not url.startswith(f"{provider.url}/")]


def kept(tab: Tab) -> str:
    """Whatever this tab could leak later."""
    return str(tab.run("() => JSON.stringify([{...localStorage}, document.cookie, location.href, history.length])"))


def in_tab(tab: Tab) -> dict[str, str]:
    found: dict[str, str] = tab.run("() => ({...sessionStorage})")
    return found


def sign_in(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Sign in").click()


def test_a_user_signs_in_and_out(arrive: Callable[[], Tab], provider: Provider, model: ScriptedModel) -> None:
    tab = arrive()
    host = urlsplit(provider.url).netloc
    tab.page.get_by_text(f"You sign in at {host}").wait_for()
    assert violations(tab) == []
    sign_in(tab)
    tab.online()
    asked = provider.asked[0]
    assert asked["redirect_uri"] == f"{tab.origin}/"
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert provider.exchanges[0]["redirect_uri"] == f"{tab.origin}/"
    assert tab.page.url == f"{tab.origin}/#/s/{tab.session}", "neither code nor state, and the same session"
    tab.say(model.script("signed in", Says("Hello, Ann.")))
    tab.ended()
    assert tab.answers == ["Hello, Ann."]
    assert "eyJ" not in kept(tab)
    assert "code-" not in kept(tab)
    assert "refresh" not in kept(tab)
    assert set(in_tab(tab)) == {"codelab.login"}
    tab.page.reload()
    tab.online()
    assert len(provider.exchanges) == 1, "a reload needs no sign-in"
    tab.press("Settings")
    tab.page.get_by_text("Signed in as ann").wait_for()
    tab.press("Sign out")
    tab.page.get_by_role("button", name="Sign in").wait_for()
    assert in_tab(tab) == {}
    until(lambda: provider.revoked == ["refresh-1"])
    assert provider.referers == []


def test_a_token_is_renewed_in_time(arrive: Callable[[], Tab], provider: Provider, model: ScriptedModel) -> None:
    provider.seconds = 6
    tab = arrive()
    sign_in(tab)
    tab.online()
    first = json.loads(in_tab(tab)["codelab.login"])["token"]
    tab.page.wait_for_function("(old) => JSON.parse(sessionStorage['codelab.login']).token !== old", arg=first)
    time.sleep(max(0.0, jwt.decode(first, options={"verify_signature": False})["exp"] - time.time()))
    tab.say(model.script("renewed", Says("Still Ann.")))
    tab.ended()
    assert tab.answers == ["Still Ann."]
    assert len(provider.exchanges) == 1


def test_an_id_token_is_sent_where_the_access_token_is_opaque(arrive: Callable[[], Tab], provider: Provider) -> None:
    provider.token = {"access_token": "opaque"}
    tab = arrive()
    sign_in(tab)
    tab.online()
    token = json.loads(in_tab(tab)["codelab.login"])["token"]
    assert jwt.decode(token, options={"verify_signature": False})["aud"] == "codelab-cli"


@pytest.mark.parametrize(
    ("lies", "said", "exchanged"),
    [
        ({"answer": {"state": "forged"}}, "not the answer that this tab waits for", False),
        ({"answer": {"iss": "https://evil.example"}}, "The answer is not of", False),
        ({"answer": {"error": "access_denied", "code": ""}}, "access_denied", False),
        ({"identity": {"nonce": "of another"}}, "not for this sign-in", True),
        ({"identity": {"aud": "another client"}}, "not for this sign-in", True),
        ({"identity": {"iss": "https://evil.example"}}, "not for this sign-in", True),
        ({"identity": {"exp": 1}}, "not for this sign-in", True),
        ({"token": {"id_token": None}}, "not for this sign-in", True),
        ({"discovery": {"issuer": "https://evil.example"}}, "says that it is another", False),
        ({"discovery": {"authorization_endpoint": "javascript:alert(1)"}}, "that is not safe", False),
        ({"discovery": {"authorization_endpoint": "http://evil.example/"}}, "that is not safe", False),
        ({"discovery": {"authorization_endpoint": "https://u@evil.example/"}}, "that is not safe", False),
        ({"discovery": {"token_endpoint": "http://evil.example/"}}, "that is not safe", False),
        ({"discovery": {"authorization_endpoint": 7}}, "that is not safe", False),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_a_false_answer_signs_nobody_in(
    arrive: Callable[[], Tab], provider: Provider, lies: dict[str, Any], said: str, exchanged: bool
) -> None:
    for name, lie in lies.items():
        setattr(provider, name, lie)
    tab = arrive()
    sign_in(tab)
    tab.page.get_by_role("alert").filter(has_text=said).filter(has_text="The sign-in failed. ").wait_for()
    assert tab.page.url.startswith(f"{tab.origin}/#/s/") or tab.page.url == f"{tab.origin}/"
    assert "codelab.login" not in in_tab(tab)
    assert bool(provider.exchanges) == exchanged


def test_an_answer_is_used_once_and_only_where_it_was_asked_for(arrive: Callable[[], Tab], provider: Provider) -> None:
    victim = arrive()
    answers: list[str] = []
    victim.page.on("request", lambda request: answers.append(request.url) if "code=" in request.url else None)
    sign_in(victim)
    victim.online()
    (answer,) = [url for url in answers if url.startswith(victim.origin)]
    assert set(parse_qs(urlsplit(answer).query)) == {"code", "state"}
    before = in_tab(victim)
    victim.page.goto(answer)  # as from the history
    victim.online()
    assert in_tab(victim) == before
    assert victim.page.url == f"{victim.origin}/"
    other = arrive()
    other.page.goto(answer)  # as from a link of an attacker, who wants somebody to act as them
    other.page.get_by_text("not the answer that this tab waits for").wait_for()
    assert "codelab.login" not in in_tab(other)
    assert len(provider.exchanges) == 1


def test_an_address_leads_nobody_elsewhere(arrive: Callable[[], Tab], provider: Provider) -> None:
    tab = arrive()
    tab.page.goto(f"{tab.origin}/?redirect_uri=https://evil.example/&next=//evil.example#//evil.example")
    sign_in(tab)
    tab.online()
    assert provider.asked[0]["redirect_uri"] == f"{tab.origin}/"
    assert tab.page.url == f"{tab.origin}/"
