"""`codelab login` and `codelab logout`: who is asked for a token, who gets it, and where it is kept."""

import asyncio
import io
import json
import os
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import keyring
import pytest
from codelab_client.command_line import newest_token
from codelab_client.login import code_flow, command, device_flow, kept
from codelab_client.login.errors import LoginError
from codelab_client.login.provider import Client, Provider, checked_issuer
from codelab_client.session import InsecureAddress, Unauthorized, tokens
from codelab_client.session.address import Address
from keyring.backend import KeyringBackend
from keyring.backends import fail

from tests.client.sign_in import SignIn
from tests.waiting import PATIENCE, run


class Keyring(KeyringBackend):
    """A keyring in memory, which cuts what is longer than `most`."""

    priority = 5  # type: ignore[assignment]

    def __init__(self, most: int = 10_000) -> None:
        super().__init__()
        self.most = most
        self.kept: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password[: self.most]

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def sign_in() -> Iterator[SignIn]:
    with SignIn() as running:
        yield running


@pytest.fixture
def address(sign_in: SignIn) -> Address:
    return Address.parse(sign_in.url)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home without a keyring, and a browser whose user agrees to everything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("CODELAB_TOKEN", "CODELAB_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "_open", visit)
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    yield tmp_path
    keyring.set_keyring(before)


async def visit(url: str) -> None:
    """Open an address as a browser does, without waiting for the end."""

    async def open_it() -> None:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False, timeout=PATIENCE) as browser:
            await browser.get(url)

    visits.append(asyncio.ensure_future(open_it()))


visits: list["asyncio.Future[None]"] = []


def log_in(address: Address, sign_in: SignIn, **options: Any) -> int:
    code: int = run(command.log_in(address, issuer=options.pop("issuer", sign_in.url), **options))
    return code


def token_for(address: Address) -> str:
    found: str = run(newest_token(address))
    return found


def test_a_user_signs_in_and_the_token_is_used_for_this_server_only(sign_in: SignIn, address: Address) -> None:
    assert log_in(address, sign_in) == 0
    begun, exchanged = sign_in.asked
    assert begun["code_challenge_method"] == "S256"
    assert urlsplit(begun["redirect_uri"]).hostname == "127.0.0.1"
    assert "client_secret" not in exchanged
    token = token_for(address)
    assert tokens.subject(token) == "ann"
    assert f"Bearer {token}" in sign_in.bearers
    assert token_for(Address.parse("wss://other.example.com")) == ""


def test_without_a_keyring_the_token_is_in_a_file_that_only_the_user_can_read(
    sign_in: SignIn, address: Address, capsys: pytest.CaptureFixture[str]
) -> None:
    old = os.umask(0)
    try:
        log_in(address, sign_in)
    finally:
        os.umask(old)
    assert stat.S_IMODE(kept.file().stat().st_mode) == 0o600
    said = capsys.readouterr().err
    assert "no keyring" in said
    assert token_for(address) not in said


@pytest.mark.parametrize("harm", ["chmod", "symlink", "damage", "pipe"])
def test_a_file_that_others_can_read_or_give_is_not_used(
    sign_in: SignIn, address: Address, home: Path, harm: str
) -> None:
    log_in(address, sign_in)
    file = kept.file()
    if harm == "chmod":
        file.chmod(0o640)
    elif harm == "damage":
        file.write_text("[")
    else:
        file.rename(home / "elsewhere")
        if harm == "symlink":
            file.symlink_to(home / "elsewhere")
        else:
            os.mkfifo(file, 0o600)
    with pytest.raises(Unauthorized, match=r"logins\.json"):
        token_for(address)


def test_a_keyring_keeps_the_token_where_there_is_one(sign_in: SignIn, address: Address) -> None:
    ring = Keyring()
    keyring.set_keyring(ring)
    log_in(address, sign_in)
    token = token_for(address)
    assert token in ring.kept["codelab", address.origin]
    assert token not in kept.file().read_text()
    assert run(command.log_out(address)) == 0
    assert (token_for(address), ring.kept) == ("", {})


def test_a_keyring_that_cuts_long_tokens_is_not_trusted_with_them(sign_in: SignIn, address: Address) -> None:
    keyring.set_keyring(Keyring(most=100))
    log_in(address, sign_in)
    assert tokens.subject(token_for(address)) == "ann"


def test_a_token_is_renewed_before_it_expires_once_for_all_processes(sign_in: SignIn, address: Address) -> None:
    log_in(address, sign_in)
    entry = json.loads(kept.file().read_text())
    entry[address.origin]["token"] = sign_in.signed(iat=0, exp=int(time.time()) + 30)
    kept.file().write_text(json.dumps(entry))

    async def three() -> list[str]:
        return await asyncio.gather(*(newest_token(address) for _ in range(3)))

    renewed = run(three())
    assert {tokens.expires_at(token) for token in renewed} != {tokens.expires_at(entry[address.origin]["token"])}
    assert len(set(renewed)) == 1
    assert sign_in.refresh_tokens == ["refresh-1", "refresh-2"]


def test_an_expired_login_that_cannot_be_renewed_says_what_to_do(sign_in: SignIn, address: Address) -> None:
    log_in(address, sign_in)
    kept.keep(address.origin, kept.Login(sign_in.signed(exp=1, iat=0), sign_in.url, "codelab-cli", "", "used before"))
    with pytest.raises(Unauthorized, match="`codelab login` signs in again"):
        token_for(address)


def test_a_renewed_token_of_another_user_is_not_used(sign_in: SignIn, address: Address) -> None:
    log_in(address, sign_in)
    kept.keep(address.origin, kept.Login(sign_in.signed(exp=1, iat=0, sub="bob"), sign_in.url, "c", "", "refresh-1"))
    sign_in.token["id_token"] = sign_in.signed(aud="c")
    with pytest.raises(Unauthorized, match="another user"):
        token_for(address)


def test_logout_tells_the_provider_and_forgets_the_token(sign_in: SignIn, address: Address) -> None:
    log_in(address, sign_in)
    assert run(command.log_out(address)) == 0
    assert sign_in.revoked == ["refresh-1"]
    assert token_for(address) == ""
    assert run(command.log_out(address)) == 0


def test_the_issuer_is_confirmed_once_and_again_when_the_server_names_another(
    sign_in: SignIn, address: Address, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, asked = ["n", "y"], []

    async def ask(question: str) -> str:
        asked.append(question)
        return answers.pop(0)

    monkeypatch.setattr("codelab_client.line_input.ask", ask)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    host = urlsplit(sign_in.url).netloc
    with pytest.raises(LoginError, match="Nobody was signed in"):
        log_in(address, sign_in, issuer="")
    assert not sign_in.asked
    log_in(address, sign_in, issuer="")
    log_in(address, sign_in, issuer="")
    assert asked == [f"Sign in at {host}? [y/N] "] * 2
    sign_in.auth["issuer"] = "https://evil.example.com"
    capsys.readouterr()
    answers.append("")
    with pytest.raises(LoginError, match="Nobody was signed in"):
        log_in(address, sign_in, issuer="")
    said = capsys.readouterr().err
    assert "CAUTION" in said
    assert "    evil.example.com    (issuer https://evil.example.com" in said


def test_without_a_terminal_or_with_another_issuer_than_expected_nobody_signs_in(
    sign_in: SignIn, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(LoginError, match="--issuer"):
        log_in(address, sign_in, issuer="")
    with pytest.raises(LoginError, match="not https://mine"):
        log_in(address, sign_in, issuer="https://mine.example.com")
    assert not sign_in.asked


@pytest.mark.parametrize(
    "issuer",
    [
        "http://login.example.com",
        "https://good.example.com@evil.example.com",
        "https://good.example.com\\@evil.example.com",
        "https://gооd.example.com",
        "https://x.example.com/\x1b[2K",
        "https://x.example.com?a=b",
        "https://x.example.com#a",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        7,
        ["https://x.example.com"],
    ],
)
def test_an_issuer_that_can_be_imitated_or_misread_is_refused(issuer: Any) -> None:
    with pytest.raises(LoginError, match="issuer"):
        checked_issuer(issuer)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("issuer", "https://other.example.com"),
        ("issuer", None),
        ("authorization_endpoint", "http://login.example.com/authorize"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "file:///bin/sh"),
        ("authorization_endpoint", "--help"),
        ("authorization_endpoint", None),
        ("token_endpoint", "http://login.example.com/token"),
    ],
)
def test_a_provider_that_names_another_issuer_or_unsafe_addresses_is_refused(
    sign_in: SignIn, address: Address, name: str, value: Any
) -> None:
    sign_in.discovery[name] = value
    with pytest.raises(LoginError):
        log_in(address, sign_in)
    assert token_for(address) == ""


def test_a_provider_elsewhere_names_no_address_on_this_machine() -> None:
    provider = Provider(Client("https://x.example.com", "c"), {"token_endpoint": "http://127.0.0.1:9/"})
    with pytest.raises(LoginError, match="not safe"):
        provider.endpoint("token_endpoint")


@pytest.mark.parametrize(
    "said",
    [
        {"answer": {"iss": "https://other.example.com"}},
        {"discovery": {"authorization_response_iss_parameter_supported": True}},
        {"answer": {"error": "access_denied", "code": ""}},
        {"identity": {"nonce": "of another login"}},
        {"identity": {"iss": "https://other.example.com"}},
        {"identity": {"exp": 1}},
        {"identity": {"azp": "another"}},
        {"token": {"id_token": None}},
        {"token": {"id_token": "nonsense"}},
        {"token": {"access_token": "opaque", "id_token": 5}},
        {"auth": {"audience": "of nobody"}},
        {"status": 401},
    ],
    ids=str,
)
def test_an_answer_of_another_login_client_or_provider_is_refused(
    sign_in: SignIn, address: Address, said: dict[str, Any]
) -> None:
    for name, value in said.items():
        if isinstance(value, dict):
            getattr(sign_in, name).update(value)
        else:
            setattr(sign_in, name, value)
    with pytest.raises(LoginError):
        log_in(address, sign_in)
    assert token_for(address) == ""


def test_the_id_token_is_used_where_access_tokens_say_nothing(sign_in: SignIn, address: Address) -> None:
    sign_in.token["access_token"] = "opaque"
    sign_in.auth["audience"] = "codelab-cli"
    log_in(address, sign_in)
    assert tokens.claims(token_for(address))["aud"] == "codelab-cli"


def test_requests_of_pages_to_the_port_neither_end_the_login_nor_pass_for_it(sign_in: SignIn) -> None:
    statuses = []

    async def attacked(url: str) -> None:
        asked = dict(parse_qsl(urlsplit(url).query))
        back, state = asked["redirect_uri"], asked["state"]
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as page:
            for attack in (f"{back}?code=evil&state=guess", f"{back}?code=evil", f"{back}a?code=evil&state={state}"):
                statuses.append((await page.get(attack)).status_code)
            rebound = await page.get(f"{back}?code=evil&state={state}", headers={"Host": "evil.example.com"})
            twice = await page.get(f"{back}?code=evil&state=x&state={state}")
            posted = await page.post(f"{back}?code=evil&state={state}")
        statuses.extend(answer.status_code for answer in (rebound, twice, posted))
        await visit(url)

    async def attack() -> kept.Login:
        provider = await Provider.discover(Client(sign_in.url, "codelab-cli"))
        return await code_flow.sign_in(provider, attacked)

    assert tokens.subject(run(attack()).token) == "ann"
    assert statuses == [400, 400, 404, 404, 400, 404]
    assert [asked["code"] for asked in sign_in.asked if "code" in asked] == ["code-1"]


def test_a_code_on_another_device_signs_in(sign_in: SignIn) -> None:
    sign_in.pending = 2
    shown: list[str] = []
    slept: list[float] = []

    async def device() -> kept.Login:
        provider = await Provider.discover(Client(sign_in.url, "codelab-cli"))
        return await device_flow.sign_in(provider, _into(shown), _into(slept))

    assert tokens.subject(run(device()).token) == "ann"
    assert shown == [f"{sign_in.url}/go", "AB-CD"]
    assert slept == [1, 1, 1]
    sign_in.pending = 100
    with pytest.raises(LoginError, match="expired"):
        run(device())


def _into(seen: list[Any]) -> Callable[..., Awaitable[None]]:
    async def see(*given: Any) -> None:
        seen.extend(given)

    return see


def test_a_pasted_token_is_kept_and_never_shown(
    sign_in: SignIn, address: Address, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = sign_in.signed()
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\n"))
    assert run(command.paste(address)) == 0
    assert token_for(address) == token
    out, err = capsys.readouterr()
    assert token not in out + err
    monkeypatch.setenv("CODELAB_TOKEN", "of the environment")
    assert token_for(address) == "of the environment"


@pytest.mark.parametrize("pasted", ["", "a b", "ключ", "a\x1b[2K", "x" * 16_001])
def test_what_is_no_token_is_not_kept(address: Address, monkeypatch: pytest.MonkeyPatch, pasted: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{pasted}\n"))
    with pytest.raises(LoginError, match="no token"):
        run(command.paste(address))
    assert not kept.file().exists()


@pytest.mark.parametrize(("auth", "code"), [({"mode": "none"}, 0), ({"mode": "jwt"}, None), ({}, None), (None, None)])
def test_a_server_without_a_provider_says_so(sign_in: SignIn, address: Address, auth: Any, code: int | None) -> None:
    sign_in.auth = auth
    if code is None:
        with pytest.raises(LoginError):
            log_in(address, sign_in)
    else:
        assert log_in(address, sign_in) == code
    assert not sign_in.asked


def test_nobody_signs_in_where_others_could_name_the_issuer() -> None:
    with pytest.raises(InsecureAddress):
        run(command.log_in(Address.parse("ws://codelab.example.com")))
