"""`codelab exec`, `codelab prompt` and `codelab doctor`: what they print, and their exit codes."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from codelab_client.policy import Policy, PolicyError
from codelab_local import LocalCloud

from tests.client.conftest import Codelab
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.processes import run
from tests.waiting import until

CODELAB = (sys.executable, "-m", "codelab_client.command_line")
WRITE = call("write_file", path="a.py", content="x")


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("print(1)")
    script = model.script("exec-read", Says("I look", [call("read_file", path="a.py")]), Says("It prints 1"))
    done = run(*CODELAB, "exec", script, cwd=folder, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "It prints 1\n", "read_file a.py\n")
    assert "print(1)" in model.requests["exec-read"][1]["messages"][-1]["content"]


def test_json_is_a_line_for_each_event(codelab: Codelab, model: ScriptedModel) -> None:
    done = codelab("exec", "--json", "-", stdin=model.script("exec-json", Says("Hello \x1b[31m")))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert "".join(event["token"] for event in events if event["type"] == "assistant_message") == "Hello \x1b[31m"
    assert events[-1]["type"] == "turn_end"
    assert "\x1b" not in done.stdout


def test_control_characters_do_not_reach_the_terminal(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    evil = "a\x1b]0;owned\x07b\x9b31mc\u202ed"
    (folder / "b.py").write_text("")
    script = model.script("exec-evil", Says("", [call("read_file", path="b.py")]), Says(evil))
    done = codelab("exec", script)
    assert done.stdout == "a␛]0;owned␇b<U+009B>31mc<U+202E>d\n"


@pytest.mark.parametrize(
    "locale",
    [
        pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.deep),
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_an_answer_in_any_language_is_written_whatever_the_locale(
    environment: dict[str, str], folder: Path, model: ScriptedModel, locale: dict[str, str]
) -> None:
    """A cron job has the locale C."""
    kind = locale.get("PYTHONIOENCODING", "ascii")
    script = model.script("exec-words", Says("Grüße, 漢字"))
    expected = "Grüße, 漢字\n".encode(kind, "backslashreplace")
    options: dict[str, Any] = {"cwd": folder, "env": {**environment, **locale}, "text": False}
    piped = run(
        *CODELAB, "exec", "-", input=f"{script} Zürich".encode("latin-1" if kind == "latin-1" else "utf-8"), **options
    )
    typed = run(*CODELAB, "exec", f"{script} Zürich", **options)
    assert [(done.returncode, done.stdout) for done in (piped, typed)] == [(0, expected)] * 2, (piped, typed)
    assert all("Zürich" in str(asked["messages"]) for asked in model.requests["exec-words"])


def test_a_dangerous_call_is_rejected_unless_the_policy_allows_it(
    codelab: Codelab, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    script = model.script("exec-write", Says("", [WRITE]), Says("Done"))
    refused = codelab("exec", script)
    assert (refused.returncode, refused.stdout) == (5, "Done\n")
    assert not (folder / "a.py").exists()
    policy = tmp_path / "policy.toml"
    policy.write_text('[[allow]]\ntool = "write_file"\npath = "*.py"\n')
    assert codelab("exec", script, "--policy", str(policy)).returncode == 0
    assert (folder / "a.py").read_text() == "x"


def test_a_turn_that_fails_has_an_exit_code(codelab: Codelab, model: ScriptedModel) -> None:
    done = codelab("exec", model.script("exec-fail", Says(status=400)))
    assert done.returncode == 1
    assert "LLM_ERROR" in done.stderr


def test_what_the_model_would_read_next_is_printed(codelab: Codelab, model: ScriptedModel) -> None:
    none = codelab("prompt")
    assert (none.returncode, "There is no conversation" in none.stderr) == (2, True)
    codelab("exec", model.script("exec-looked", Says("one")))
    done = codelab("prompt", "And \x1b[2Jthen?")
    assert done.returncode == 0, done.stderr
    assert re.match(r"agent universal, model \S+\nabout [\d,]+ tokens: system [\d,]+, ", done.stdout)
    assert "And ␛[2Jthen?" in done.stdout
    assert '"response_format"' in done.stdout
    request = json.loads(codelab("prompt", "And then?", "--json").stdout)
    assert [message["role"] for message in request["messages"]][-3:] == ["user", "assistant", "user"]
    content = request["messages"][-1]["content"]
    assert content.startswith("And then?\n")
    assert "date: " in content, "as `exec` tells it with the message"
    other = codelab("prompt", "--session", "nobodys")
    assert (other.returncode, "no such session" in other.stderr) == (1, True)
    nowhere = codelab("prompt", "--session", "x", "--url", "http://127.0.0.1:9")
    assert (nowhere.returncode, "does not answer" in nowhere.stderr) == (3, True)


def test_the_last_conversation_goes_on(codelab: Codelab, model: ScriptedModel) -> None:
    codelab("exec", model.script("exec-first", Says("one")))
    assert codelab("exec", "--continue", model.script("exec-second", Says("two"))).stdout == "two\n"
    assert "[[exec-first]]" in str(model.requests["exec-second"][0]["messages"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("exec",), 2, "the following arguments are required: prompt"),
        (("exec", "hi", "--jsno"), 2, "unknown option --jsno: did you mean --json?"),
        (("exce", "hi"), 2, "did you mean exec?"),
        (("exec", "fix", "the", "bug"), 2, "exec: error: unexpected 'the bug': put the whole message in quotes"),
        (("doctor", "now"), 2, "doctor: error: unexpected 'now'"),
        (("exec", " "), 2, "The prompt is empty"),
        (("exec", "hi", "--session", "a b"), 2, "is not a session id"),
        (("exec", "hi", "--workspace", "missing"), 2, "is not a folder"),
        (("exec", "hi", "--url", "localhost:8000"), 2, "it must look like ws://localhost:8000"),
        (
            ("exec", "hi", "--url", "ws://localhost:9"),
            3,
            "nothing listens there.\nStart one with `make run`",
        ),
        (("exec", "hi", "--policy", "missing.toml"), 2, "missing.toml: No such file"),
        (("exec", "hi", "--continue"), 2, "There is no conversation"),
        (("exec", "hi", "--model", "nonsense"), 1, "Unknown model"),
        ((), 2, "stdin is not a terminal"),
    ],
)
def test_wrong_usage_says_what_to_do(codelab: Codelab, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = codelab(*arguments)
    assert said in done.stderr
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr


def test_a_state_folder_that_cannot_be_written_is_an_error(codelab: Codelab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = codelab("exec", "hi", XDG_STATE_HOME=str(tmp_path / "file"))
    assert done.returncode == 3
    assert "Set XDG_STATE_HOME" in done.stderr


def test_an_expired_token_is_said(codelab: Codelab, limited_cloud: LocalCloud) -> None:
    none = codelab("exec", "hi", CODELAB_URL=limited_cloud.http)
    assert (none.returncode, "needs a token" in none.stderr) == (4, True)
    wrong = codelab("exec", "hi", CODELAB_URL=limited_cloud.http, CODELAB_TOKEN="nonsense")
    assert (wrong.returncode, "does not accept the token" in wrong.stderr) == (4, True)


def test_ctrl_c_cancels_the_turn(environment: dict[str, str], folder: Path, model: ScriptedModel) -> None:
    script = model.script("exec-long", Says("word " * 2_000, delay=0.05))
    running = subprocess.Popen(
        [*CODELAB, "exec", script], cwd=folder, env=environment, text=True, stderr=subprocess.PIPE
    )
    try:
        until(lambda: model.requests["exec-long"])
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
    finally:
        running.kill()
        said = running.communicate()[1]
    assert "Traceback" not in said
    until(lambda: "exec-long" in model.hung_up)


def test_the_doctor_says_what_works(codelab: Codelab) -> None:
    done = codelab("doctor")
    found = {line[5:15].strip(): line[:4].strip() for line in done.stdout.splitlines()}
    assert found["server"] == found["state"] == "ok"
    assert found["token"] == "--"
    assert re.search(r"^ok   model +scripted, available, says http", done.stdout, re.MULTILINE)
    broken = codelab("doctor", "--url", "ws://localhost:9")
    assert broken.returncode == 1
    assert "nothing listens there" in broken.stdout


def test_the_doctor_blames_what_is_wrong(codelab: Codelab, limited_cloud: LocalCloud, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stateless = codelab("doctor", XDG_STATE_HOME=str(tmp_path / "file"))
    assert stateless.returncode == 1
    assert "FAIL server" not in stateless.stdout
    assert "FAIL state " in stateless.stdout
    assert "make run` starts one" not in stateless.stdout
    tokenless = codelab("doctor", CODELAB_URL=limited_cloud.http)
    assert tokenless.returncode == 1
    assert re.search(
        r"^FAIL server .* The server needs a token\. `codelab login` signs in", tokenless.stdout, re.MULTILINE
    )


def test_no_policy_accepts_a_plan(tmp_path: Path) -> None:
    """A human's decision alone does."""
    entry = {"tool": "propose_plan", "steps": {"any": True}, "explanation": {"any": True}}
    assert not Policy((entry,)).allows("propose_plan", {"steps": ["Write a.py"]})
    (file := tmp_path / "policy.toml").write_text('[[allow]]\ntool = "propose_plan"\nsteps = { any = true }\n')
    with pytest.raises(PolicyError, match="propose_plan cannot be allowed: a human's decision alone accepts a plan"):
        Policy.load(file)
