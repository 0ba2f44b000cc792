"""`codelab setup`: what it asks, whom it sends the key, where it keeps what, and what `make run` makes of it."""

import io
import json
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import keyring
import pytest
from codelab.json_settings import ModelCapabilities, by_name
from codelab.llm.profiles import PROFILES
from codelab_client import doctor
from codelab_client.command_line import main
from codelab_client.setup import discovery, gguf, model_file
from codelab_client.setup import endpoint as asking
from codelab_client.setup.errors import SetupError
from codelab_client.setup.model_file import Model, checked, checked_url
from codelab_client.setup.probe import TEXT
from codelab_client.setup.providers import PROVIDERS
from codelab_local.host.errors import StartError
from codelab_local.host.processes import bound_socket
from codelab_local.model_file.model_server import ServedFile
from codelab_local.settings.env_file import with_env_file
from codelab_local.settings.settings import Model as ServedModel
from keyring.backends import fail

from tests.client.terminals import Terminal
from tests.client.test_login import Keyring
from tests.fakes.http import Exchange, Script, Site, answering
from tests.sampling import sampled
from tests.waiting import run

CODELAB = [sys.executable, "-m", "codelab_client.command_line"]
KEY = "sk-secret-1234"
MODELS = {"data": [{"id": f"small-{n}"} for n in range(40)] + [{"id": "large-code"}, {"id": 3}, {"id": "\x1b[2J"}, 7]}
READY = {"choices": [{"message": {"role": "assistant", "content": "rea\x1b]0;owned\x07dy"}}]}


@dataclass
class Endpoint:
    """A model's answers to the question and to the three requests after it. Each may be a response or a status."""

    schema: Any = field(default_factory=lambda: _answer(path="p"))
    call: Any = field(default_factory=lambda: _call(path="notes.txt"))
    text_of_schema: Any = field(default_factory=lambda: _content({"text": TEXT}))
    text_of_call: Any = field(default_factory=lambda: _call(text=TEXT))

    def __call__(self, exchange: Exchange) -> None:
        fields = exchange.body
        is_text = TEXT in fields["messages"][0]["content"]
        if "tools" in fields:
            answer = self.text_of_call if is_text else self.call
        elif "response_format" in fields:
            answer = self.text_of_schema if is_text else self.schema
        else:
            answer = READY
        if isinstance(answer, int):
            exchange.json({"error": {"message": "no such thing"}}, answer)
        else:
            exchange.json(answer)


def _content(value: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": json.dumps(value)}}]}


def _answer(**arguments: str) -> dict[str, Any]:
    return _content({"message": "m", "calls": [{"_tool": "read_file", **arguments}]})


def _call(**arguments: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"tool_calls": [{"function": {"arguments": json.dumps(arguments)}}]}}]}


PAGES = {"/v1/models": answering(MODELS), "/v1/chat/completions": Endpoint()}


def drip(exchange: Exchange) -> None:
    """Send a byte now and then, for as long as anybody waits."""
    exchange.begin(chunked=False)
    for _ in range(200):
        exchange.write(b" ")
        time.sleep(0.05)


def flood(exchange: Exchange) -> None:
    """Send more than anybody can keep."""
    exchange.begin(chunked=False)
    for _ in range(200):
        exchange.write(b"[" * 1_000_000)


@pytest.fixture
def endpoint() -> Iterator[Site]:
    with Site(PAGES) as running:
        yield running


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No file, no keyring, no terminal, no variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    for name in ("PROVIDER", "BASE_URL", "MODEL", "API_KEY"):
        monkeypatch.delenv(f"LLM_{name}", raising=False)
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    yield tmp_path
    keyring.set_keyring(before)


def set_up(endpoint: Site, *more: str, model: str = "large-code") -> int:
    url = ("--base-url", f"{endpoint.url}/v1") if "--base-url" not in more else ()
    return main(["setup", "--provider", "generic", *url, "--model", model, "--key-file", "-", *more])


def test_every_provider_of_the_server_but_bedrock_can_be_set_up() -> None:
    assert {*PROVIDERS, "bedrock"} == {*PROFILES}, "see PROVIDERS of setup/providers.py"


def test_a_key_in_the_environment_is_found_for_every_provider_with_an_address() -> None:
    """For the first of those with the same address."""
    first_by_url = {it.url: it.name for it in reversed(PROVIDERS.values()) if it.needs_key and it.url}
    assert {*first_by_url.values()} == {*discovery.KEY_VARIABLES.values()}, "see KEY_VARIABLES of setup/discovery.py"


def test_a_script_sets_up_a_model_that_make_run_then_has(
    endpoint: Site, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config / "codelab" / "model.env"
    file.parent.mkdir()
    file.write_text("MAX_STEPS=9\nexport LLM_MODEL=old\n")
    file.chmod(0o600)
    assert set_up(endpoint) == 0
    said = capsys.readouterr().err
    assert "“rea␛]0;owned␇dy”" in said
    assert "only you can read it" in said
    assert KEY not in said
    assert "It can answer in the form of a schema, call functions, copy code exactly." in said
    asked, *probes = endpoint.received
    assert [sorted(it.body.keys() & {"response_format", "tools"}) for it in probes] == [
        ["response_format"],
        ["tools"],
        ["response_format"],
    ]
    assert (asked.path, asked.headers["authorization"], asked.body["model"]) == (
        "/v1/chat/completions",
        f"Bearer {KEY}",
        "large-code",
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    environment, note = with_env_file({"PATH": "/bin"}, file)
    model = {
        "LLM_PROVIDER": "generic",
        "LLM_BASE_URL": f"{endpoint.url}/v1",
        "LLM_MODEL": "large-code",
        "LLM_API_KEY": KEY,
    }
    assert environment == {"PATH": "/bin", "MAX_STEPS": "9", **model}
    assert "LLM_MODEL" in note
    assert KEY not in note
    assert main(["setup", "--provider", "demo"]) == 0
    assert file.read_text() == "MAX_STEPS=9\n"


@pytest.mark.parametrize(
    ("model", "strategy", "said"),
    sampled(
        [
            (Endpoint(schema=400), "calls", "It can call functions, copy code exactly. It cannot answer in the form"),
            (
                Endpoint(text_of_schema=_content({"text": TEXT.replace("\\\\", "\\")})),
                "calls",
                "cannot copy code exactly",
            ),
            (
                Endpoint(schema=_answer(file="p"), call=READY),
                "json",
                "cannot answer in the form of a schema, call functions",
            ),
            (Endpoint(call=500, text_of_schema=READY), "", "A model that changes what it copies often fails to edit"),
            (Endpoint(schema={"choices": 3}, call=_call(path="other")), "json", "It can copy code exactly. It cannot"),
            (
                Endpoint(schema=400, call={"choices": [{"message": {"tool_calls": "x"}}]}, text_of_schema=400),
                "json",
                "",
            ),
        ]
    ),
)
def test_an_open_endpoint_is_tried_and_what_works_is_kept(
    endpoint: Site, capsys: pytest.CaptureFixture[str], model: Endpoint, strategy: str, said: str
) -> None:
    file = model_file.file()
    file.parent.mkdir(exist_ok=True)
    rows_before = '{"other": {"window": 9000}, "large-code": {"strategy": "tool", "images": true}}'
    file.write_text(f"LLM_CAPABILITIES={rows_before}\n")
    file.chmod(0o600)
    endpoint.pages["/v1/chat/completions"] = model
    assert set_up(endpoint) == 0
    shown = capsys.readouterr().err
    assert said in shown
    assert "no such thing" not in shown
    capabilities = with_env_file({}, file)[0]["LLM_CAPABILITIES"]
    rows = dict(by_name(ModelCapabilities, capabilities))
    assert rows["other"].window == 9000
    assert (rows["large-code"].strategy or "", rows["large-code"].images) == (strategy, True)
    assert main(["setup", "--provider", "demo"]) == 0
    assert "LLM_CAPABILITIES" in file.read_text()


def test_a_model_that_stops_answering_while_it_is_tried_is_set_up_as_usual(
    endpoint: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.pages["/v1/chat/completions"] = Endpoint(call=429)
    assert set_up(endpoint) == 0
    assert "What it can do is not known" in capsys.readouterr().err
    assert "LLM_CAPABILITIES" not in model_file.file().read_text()


def test_a_file_with_broken_capabilities_is_not_overwritten(endpoint: Site, capsys: pytest.CaptureFixture[str]) -> None:
    file = model_file.file()
    file.parent.mkdir(exist_ok=True)
    file.write_text("LLM_CAPABILITIES={1}\n")
    file.chmod(0o600)
    endpoint.pages["/v1/chat/completions"] = Endpoint(schema=400)
    assert set_up(endpoint) == 1
    assert "is not a JSON object of objects" in capsys.readouterr().err
    assert file.read_text() == "LLM_CAPABILITIES={1}\n"


def test_a_keyring_keeps_the_key_where_there_is_one(endpoint: Site, config: Path) -> None:
    ring = Keyring()
    keyring.set_keyring(ring)
    file = config / "codelab" / "model.env"
    assert set_up(endpoint) == 0
    assert KEY not in file.read_text()
    assert ring.kept == {("codelab-model", "generic"): KEY}
    assert with_env_file({}, file)[0]["LLM_API_KEY"] == KEY
    assert run(doctor._setup()).good is True
    ring.kept.clear()
    with pytest.raises(StartError, match="LLM_API_KEY is not in the keyring"):
        with_env_file({}, file)
    found = run(doctor._setup())
    assert not found.good
    assert "gone from the keyring" in found.text
    assert main(["setup", "--provider", "demo"]) == 0
    assert not file.exists()
    assert run(doctor._setup()).good is None


def test_the_file_counts_as_a_whole_or_not_at_all(config: Path) -> None:
    """Else its key would go to the endpoint that the environment names."""
    model_file.keep(Model("openai", "https://api.openai.com/v1", "gpt-4.1-mini", KEY))
    environment, note = with_env_file({"LLM_BASE_URL": "http://127.0.0.1:9900/v1"}, model_file.file())
    assert environment == {"LLM_BASE_URL": "http://127.0.0.1:9900/v1"}
    assert "is not used, because the environment sets LLM_BASE_URL" in note


@pytest.mark.parametrize("harm", ["chmod", "folder"])
def test_a_file_that_others_can_read_is_not_used(config: Path, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = model_file.file()
    if harm == "chmod":
        model_file.keep(Model("openai", "https://api.openai.com/v1", "gpt-4.1-mini", KEY))
        file.chmod(0o640)
    else:
        file.mkdir(parents=True)
    with pytest.raises(StartError, match=r"model\.env"):
        with_env_file({}, file)
    assert main(["setup", "--provider", "demo"]) == 1
    assert "model.env" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answering({"error": {"message": f"Bad key {KEY}\x1b[2J"}}, 401), "refuses the key (HTTP 401)\n  “Bad key …␛"),
        (answering({"error": "no"}, 429), "no credit"),
        (answering({}, 404), "knows no such address or model"),
        (answering({}, 307, {"Location": "/v1/elsewhere"}), "answers from another address"),
        (answering([]), "does not answer with JSON"),
        (answering(b"<html>"), "does not answer with JSON"),
        (answering(b"[" * 500_000), "does not answer with JSON"),
        (answering({"choices": []}), "usually ends with /v1"),
        (answering({"choices": [{"message": None}]}), "usually ends with /v1"),
        (flood, "more than 4,000,000 bytes"),
        (drip, "no complete answer within"),
    ],
)
def test_a_model_that_does_not_answer_is_not_set_up(
    endpoint: Site,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: Script,
    said: str,
) -> None:
    monkeypatch.setattr(asking, "_QUESTION_S", 0.5 if answer is drip else 30.0)
    endpoint.pages["/v1/chat/completions"] = answer
    assert set_up(endpoint) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert "Nothing was changed" in shown
    assert KEY not in shown
    assert "\x1b" not in shown
    assert len(shown) < 1_000
    assert not model_file.file().exists()
    assert [it.path for it in endpoint.received] == ["/v1/chat/completions"]


OTHER_APIS = {
    "anthropic-messages": {
        "/v1/models": {"data": [{"type": "model", "id": "claude-sonnet-5"}], "has_more": False},
        "/v1/messages": {"type": "message", "content": [{"type": "thinking", "thinking": "Hm."},
                                                        {"type": "text", "text": "ready"}]},
    },
    "openai-responses": {
        "/v1/models": {"data": [{"id": "gpt-6"}]},
        "/v1/responses": {"output": [{"type": "reasoning"},
                                     {"type": "message", "content": [{"type": "output_text", "text": "ready"}]}]},
    },
    "bedrock-converse": {
        "/v1/models": {"models": [{"id": "m"}]},  # The real one lists none.
        "/v1/model/m/converse": {"output": {"message": {"role": "assistant", "content": [{"text": "ready"}]}}},
    },
    "ollama-chat": {
        "/v1/tags": {"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}]},
        "/v1/chat": {"message": {"role": "assistant", "content": "ready"}, "done": True},
    },
}  # fmt: skip


OTHER_MODELS = {"anthropic-messages": "claude-sonnet-5", "openai-responses": "gpt-6", "bedrock-converse": "m",
                "ollama-chat": "qwen3:8b"}  # fmt: skip


@pytest.mark.parametrize("provider", OTHER_APIS)
def test_a_model_behind_another_api_is_asked_in_its_words(provider: str, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {path: answering(page) for path, page in OTHER_APIS[provider].items()}
    with Site(pages) as site:
        model = Model(provider, f"{site.url}/v1", "m", KEY)
        assert run(asking.models(model)) == [OTHER_MODELS[provider]]
        options = ["--base-url", f"{site.url}/v1", "--model", "m", "--key-file", "-"]
        assert main(["setup", "--provider", provider, *options]) == 0
        headers, body = site.received[-1].headers, site.received[-1].body
        site.pages |= dict.fromkeys(pages, answering(READY))
        with pytest.raises(SetupError, match=r"does not answer like .* API; its address usually ends with [/.]"):
            run(asking.answer(model))
    assert "“ready”" in capsys.readouterr().err
    if provider == "anthropic-messages":
        assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
        assert "authorization" not in headers
        assert body["max_tokens"] > 0
    else:
        assert headers["authorization"] == f"Bearer {KEY}"
        assert provider == "bedrock-converse" or body["stream"] is False
    assert f"LLM_PROVIDER={provider}\n" in model_file.file().read_text()


def test_an_endpoint_that_does_not_listen_is_reported_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with bound_socket() as bound:  # nobody listens there, nor takes the port, as long as it is open
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        assert main(["setup", "--provider", "generic", "--base-url", url, "--model", "m", "--key-file", "-"]) == 1
    assert "does not answer: Connection refused\nNothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize(("provider", "bound"), [("vllm", 400), ("generic", None)])
def test_a_model_without_a_key_may_not_go_on_for_ever(endpoint: Site, provider: str, bound: int | None) -> None:
    """Other servers may refuse the field."""
    bodies: list[dict[str, Any]] = []

    def answers(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        exchange.json(READY)

    endpoint.pages["/v1/chat/completions"] = answers
    key = ("--key-file", "-") if provider == "generic" else ()
    assert (
        main(["setup", "--provider", provider, "--base-url", f"{endpoint.url}/v1", "--model", "large-code", *key]) == 0
    )
    assert bodies[0].get("max_tokens") == bound


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--provider", "opnai"), 1, "did you mean openai?"),
        (("--provider", "bedrock"), 1, "its own role"),
        ((), 1, "--provider"),
        (("--provider", "vllm"), 1, "--base-url http://localhost:8001/v1"),
        (("--provider", "openai"), 1, "--key-file FILE"),
        (("--provider", "ollama"), 1, "--model"),
        (("--provider", "ollama", "--model", "a b"), 1, "The model's name must be"),
        (("--provider", "openai", "--key-file", "/nowhere"), 1, "/nowhere: No such file"),
        (("--provider", "generic", "--base-url", "http://host/v1", "--key-file", "-"), 1, "not encrypted"),
        (("--provder", "openai"), 2, "unknown option --provder: did you mean --provider?"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, said: str
) -> None:
    try:
        ended = main(["setup", *options])
    except SystemExit as refused:
        ended = int(refused.code or 0)
    assert ended == code
    assert said in capsys.readouterr().err
    assert not model_file.file().exists()


@pytest.mark.parametrize(
    "url", ["host/v1", "ftp://host", "https://", "https://u:p@host/v1", "https://h:x/", "https://h/?k"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SetupError):
        checked_url(url)
    assert checked_url(" https://host/v1/chat/completions/ ") == "https://host/v1"
    assert checked_url("https://host/v1/messages") == "https://host/v1"
    assert checked_url("http://host:11434/api/chat") == "http://host:11434/api"


@pytest.mark.parametrize("key", ["", "a b", "a\nLLM_BASE_URL=x", "'a", 'a"', "a\\", "a#b", "$(id)", "é", "k" * 5_000])
def test_what_is_no_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(SetupError) as refused:
        checked(key, "The key")
    assert str(refused.value) == ("The key must be one line of letters, digits and signs, without spaces and quotes")


def test_a_user_is_asked_and_typos_cost_nothing(endpoint: Site, tmp_path: Path) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    steps = [
        ("Number or name [openai]:", "zzz\r"),
        ("These are known:", "genric\r"),
        ("did you mean generic?", "generic\r"),
        ("Address, such as https://host/v1:", "nonsense\r"),
        ("must look like https://host/v1", f"{endpoint.url}/v1\r"),
        ("it is not shown", f"{KEY}\r"),
        ("more: type a part of a name", "small\r"),
        ("Model:", "larg-code\r"),
        ("Did you mean large-code? [Y/n]", "\r"),
        ("is set up, in", ""),
    ]
    with Terminal([*CODELAB, "setup"], environment, tmp_path) as terminal:
        for shown, typed in steps:
            terminal.expect(shown)
            terminal.type(typed)
        assert terminal.ended() == 0
        lines = terminal.all_lines()
    assert KEY not in lines
    assert max(len(line.rstrip()) for line in lines.splitlines()) <= 80
    file = tmp_path / ".config" / "codelab" / "model.env"
    assert f"LLM_API_KEY={KEY}\n" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {it.headers.get("authorization") for it in endpoint.received} == {f"Bearer {KEY}"}

    endpoint.pages["/v1/chat/completions"] = answering(READY, 500)
    kept = file.read_text()
    with Terminal([*CODELAB, "setup", "--provider", "generic", "--model", "x"], environment, tmp_path) as terminal:
        for shown, typed in [
            (f"[{endpoint.url}/v1]", "\r"),
            ("Enter keeps the one you have", "\r"),
            ("Keep these settings anyway? [y/N]", "\r"),
            ("Nothing was changed", ""),
        ]:
            terminal.expect(shown)
            terminal.type(typed)
        assert terminal.ended() == 1
    with Terminal([*CODELAB, "setup"], environment, tmp_path) as terminal:
        terminal.expect("Number or name [generic]")
        terminal.type("\x03")
        terminal.expect("Nothing was changed")
        assert terminal.ended() == 130
    assert file.read_text() == kept


ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


def test_servers_of_this_machine_are_found(endpoint: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {title: urlsplit(url).port for title, _, url in discovery.SERVERS}
    assert ports == {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}, "the usual ones"
    with bound_socket() as silent, Site(PAGES) as other:
        other.pages["/v1/models"] = answering({"error": "a key, please"}, 401)
        nobody = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        places = [
            ("Ollama", "ollama", f"{endpoint.url}/v1"),
            ("vLLM", "vllm", f"{other.url}/v1"),
            ("LM Studio", "generic", nobody),
        ]
        monkeypatch.setattr(discovery, "SERVERS", places)
        [found] = run(discovery.servers_here())
    assert (found.provider, found.url, found.key_variable) == ("ollama", f"{endpoint.url}/v1", "")
    assert found.about.startswith("Ollama at 127.0.0.1:")
    assert found.about.endswith("large-code and 40 more")
    assert [it.headers.get("authorization") for it in endpoint.received] == [None], "nobody is sent a key to look"


def test_keys_of_the_environment_are_named_and_not_shown() -> None:
    environment = {"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": KEY, "MISTRAL_API_KEY": " "}
    found = discovery.keys_here(environment)
    assert [(it.provider, it.key_variable) for it in found] == [
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ]
    assert KEY not in str(found)
    bedrock = {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": "eu-west-1"}
    [found_there] = discovery.keys_here(bedrock)
    assert found_there.url == "https://bedrock-runtime.eu-west-1.amazonaws.com"
    assert "make deploy" in discovery.aws_note(bedrock)
    assert discovery.aws_note({}) == ""


def test_a_server_that_was_found_is_one_letter_away(
    endpoint: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two keys in the environment, of which nobody hears."""
    program = "import sys; from codelab_client import command_line; from codelab_client.setup import discovery as it"
    program += "; it.SERVERS = [('Ollama', 'ollama', sys.argv[1])]; sys.exit(command_line.main(['setup']))"
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    steps = [
        ("Letter, number or name [a]:", "\r"),
        ("Model:", "large-code\r"),
        ("is set up, in", ""),
    ]
    line = [sys.executable, "-c", program, f"{endpoint.url}/v1"]
    with Terminal(line, {**ENVIRONMENT, **keys, "HOME": str(tmp_path)}, tmp_path) as terminal:
        for shown, typed in steps:
            terminal.expect(shown)
            terminal.type(typed)
        assert terminal.ended() == 0
        lines = terminal.all_lines()
    assert "b  OpenAI, with the key in OPENAI_API_KEY" in lines
    assert "c  Anthropic, with the key in ANTHROPIC_API_KEY" in lines
    assert max(len(one.rstrip()) for one in lines.splitlines()) <= 80
    file = (tmp_path / ".config" / "codelab" / "model.env").read_text()
    assert file == f"LLM_PROVIDER=ollama\nLLM_BASE_URL={endpoint.url}/v1\nLLM_MODEL=large-code\nLLM_API_KEY=\n"
    assert {it.headers.get("authorization") for it in endpoint.received} == {None}


def test_a_key_of_the_environment_is_used_only_if_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert main(["setup", "--provider", "openai", "--model", "m"]) == 1
    said = capsys.readouterr().err
    assert 'to use the one in OPENAI_API_KEY: LLM_API_KEY="$OPENAI_API_KEY" codelab setup' in said
    assert KEY not in said
    elsewhere = ["--base-url", "https://evil.example/v1"]
    assert main(["setup", "--provider", "openai", *elsewhere, "--model", "m"]) == 1
    assert "OPENAI_API_KEY" not in capsys.readouterr().err, "it is the provider's, and for nobody else"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ulr", "ws://x"), "unknown option --ulr: did you mean --url?"),
        (("exec", "--jsno", "hi"), "unknown option --jsno: did you mean --json?"),
        (("exce", "hi"), "'exce' is not a command: did you mean exec?"),
        (("fix the bug",), '`codelab exec "…"` sends a prompt'),
    ],
)
def test_a_mistyped_option_or_command_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err


# -- a model file of the user's --------------------------------------------------------------------------------------


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    path = tmp_path / "my model.Q4.gguf"
    path.write_bytes(b"GGUF\3\0\0\0")
    return path


def test_a_model_file_is_kept_for_the_local_cloud(gguf_file: Path, config: Path) -> None:
    model = gguf.model_of(str(gguf_file), None, None)
    assert (model.provider, model.name, model.gguf) == ("llama.cpp", "my-model.Q4", str(gguf_file))
    model_file.keep(replace(model, window=gguf.WINDOW, strategy="calls"))
    environment, _ = with_env_file({}, config / "codelab" / "model.env")
    assert environment == {
        "LLM_PROVIDER": "llama.cpp",
        "LLM_BASE_URL": model.url,
        "LLM_MODEL": "my-model.Q4",
        "LLM_API_KEY": "",
        "LLM_GGUF": str(gguf_file),
        "LLM_CAPABILITIES": '{"my-model.Q4": {"strategy": "calls", "window": 16384}}',
    }
    assert ServedFile.of(
        environment, ServedModel("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL", file="LLM_GGUF")
    ) == ServedFile(gguf_file, "my-model.Q4", urlsplit(model.url).port or 0)
    # Its port stays, and a name may be given.
    again = gguf.model_of(str(gguf_file), "mine", model_file.read())
    assert (again.url, again.name) == (model.url, "mine")
    model_file.keep(Model("openai", "https://api.openai.com/v1", "gpt-4.1-mini", "sk-1"), in_keyring=False)
    assert "LLM_GGUF" not in (config / "codelab" / "model.env").read_text()


def test_what_is_no_model_file_is_refused(gguf_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gguf_file.with_name("text.gguf").write_text("a text")
    gguf_file.with_name("it's.gguf").write_bytes(b"GGUF")
    (gguf_file.parent / "folder.gguf").mkdir()
    for name, complaint in (
        ("text.gguf", "is not a model in the format GGUF"),
        ("it's.gguf", "must have no quotes"),
        ("folder.gguf", "Is a directory"),
        ("missing.gguf", "No such file"),
        ("a\0b", "embedded null"),
    ):
        with pytest.raises(SetupError, match=complaint):
            gguf.model_of(str(gguf_file.parent / name), None, None)
    assert main(["setup", "--gguf", str(gguf_file), "--provider", "openai"]) == 1
    assert "With --gguf there is no other provider" in capsys.readouterr().err
    assert model_file.read() is None
