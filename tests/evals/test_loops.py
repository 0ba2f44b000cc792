"""The plain loops, with a scripted server: what they do with calls, mistakes and errors."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals import agents
from tests.fakes.http import answering
from tests.fakes.model.wire import ScriptedServer, failing
from tests.sampling import sampled

LOOPS = Path(agents.__file__).parent / "loops"
#: Runs a loop with these answers of the model: its exit code, its output, the trace, and what was sent.
Run = Callable[..., tuple[int, str, list[dict[str, Any]], list[dict[str, Any]]]]


def calls(*made: tuple[str, Any]) -> dict[str, Any]:
    listed = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, (name, given) in enumerate(made)
        for text in [given if isinstance(given, str) else json.dumps(given)]
    ]
    return {"content": None, "tool_calls": listed}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    work = tmp_path / "work"
    work.mkdir()
    with ScriptedServer() as model:

        def run_one(
            program: str, scripted: Sequence[dict[str, Any] | int], max_steps: int = 5, limit: str = "60"
        ) -> Any:
            model.answer(
                *(failing(it) if isinstance(it, int) else answering({"choices": [{"message": it}]}) for it in scripted)
            )
            line = [sys.executable, str(LOOPS / f"{program}.py"), "--base-url", model.url]
            line += ["--model", "m", "--max-steps", str(max_steps), "--trace", str(tmp_path / "trace.jsonl")]
            environment = {
                **os.environ,
                "WAIT_S": "0",
                "COMMAND_S": limit,
                "OPENAI_API_KEY": "x",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            done = subprocess.run(
                line, cwd=work, env=environment, input="Do it.", capture_output=True, text=True, check=False
            )
            trace = [json.loads(row) for row in (tmp_path / "trace.jsonl").read_text().splitlines()]
            return done.returncode, done.stdout, trace, model.requests

        yield run_one


def test_calls_are_done_until_an_answer_has_none(run: Run, tmp_path: Path) -> None:
    code, output, trace, sent = run(
        "native",
        [
            calls(("write_file", {"path": "a/x.txt", "content": "one\ntwo\n"}), ("list_files", {"path": "."})),
            calls(("edit_file", {"path": "a/x.txt", "old": "two", "new": "three"}), ("search", {"pattern": "^t"})),
            calls(("run_command", {"command": "cat a/x.txt"})),
            {"content": "Done."},
        ],
    )
    assert (code, output) == (0, "Done.")
    assert (tmp_path / "work/a/x.txt").read_text() == "one\nthree\n"
    told = [event["text"] for event in trace if event["kind"] == "result"]
    assert told == ["written", "a/x.txt", "edited", "a/x.txt:2: three", "exit code 0\none\nthree\n"]
    assert [message["role"] for message in sent[-1]["messages"]][:5] == ["system", "user", "assistant", "tool", "tool"]
    assert trace[-1] == {"kind": "end", "reason": "completed"}


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    sampled(
        [
            ("open_file", {"path": "x"}, "there is no tool open_file"),
            ("read_file", "{", "no JSON"),
            ("read_file", {}, "path"),
            ("read_file", {"path": "../trace.jsonl"}, "not in the workspace"),
            ("read_file", {"path": "missing"}, "No such file"),
            ("edit_file", {"path": "missing", "old": "a", "new": "b"}, "No such file"),
            ("search", {"pattern": "("}, "unterminated"),
            ("run_command", {"command": "\0"}, "cannot be run"),
            ("read_file", "[]", "no object"),
            ("read_file", "[" * 100_000, "no JSON"),
            ("write_file", {"path": "x", "content": "\ud800"}, "surrogates"),
            ("write_file", {"path": "x", "content": 1}, "int"),
        ]
    ),
)
def test_a_mistake_is_told_to_the_model(run: Run, name: str, arguments: Any, why: str) -> None:
    code, _, trace, sent = run("native", [calls((name, arguments)), {"content": "I see."}])
    [result] = [event for event in trace if event["kind"] == "result"]
    assert (code, result["ok"]) == (0, False)
    assert why in result["text"]
    assert sent[-1]["messages"][-1]["content"] == result["text"]
    [told] = sent[-1]["messages"][-2]["tool_calls"]
    assert isinstance(json.loads(told["function"]["arguments"]), dict)  # or llama.cpp refuses all that follows


def test_a_command_that_fails_is_told_and_is_no_failed_call(run: Run) -> None:
    _, _, trace, sent = run("native", [calls(("run_command", {"command": "exit 3"})), {"content": "I see."}])
    [result] = [event for event in trace if event["kind"] == "result"]
    assert (result["ok"], result["text"].split("\n")[0]) == (True, "exit code 3")
    assert sent[-1]["messages"][-1]["content"] == result["text"]


def test_calls_without_an_id_a_function_or_text_are_answered(run: Run, tmp_path: Path) -> None:
    given = {"function": {"name": "write_file", "arguments": {"path": "x", "content": "y"}}}
    code, _, trace, sent = run("native", [{"content": None, "tool_calls": [given, {"id": "b"}]}, {"content": "."}])
    assert (code, (tmp_path / "work/x").read_text()) == (0, "y")
    assert [event["ok"] for event in trace if event["kind"] == "result"] == [True, False]
    *_, about, first, second = sent[-1]["messages"]
    assert [call["id"] for call in about["tool_calls"]] == [first["tool_call_id"], second["tool_call_id"]]


def test_an_edit_leaves_the_rest_of_a_file_as_it_was(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work/x").write_bytes(b"a\r\nb\r\nc")
    run("native", [calls(("edit_file", {"path": "x", "old": "b", "new": "d"})), {"content": "."}])
    assert (tmp_path / "work/x").read_bytes() == b"a\r\nd\r\nc"


def test_links_and_names_in_the_folder_are_no_way_out_and_no_end(run: Run, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (tmp_path / "outside").write_text("secret")
    (work / "link").symlink_to("../outside")
    (work / "round").symlink_to("round")
    (work / os.fsdecode(b"n\xff")).touch()
    made = calls(("list_files", {"path": "."}), ("search", {"pattern": "secret"}), ("read_file", {"path": "link"}))
    code, _, trace, sent = run("native", [made, {"content": "."}])
    told = [event["text"] for event in trace if event["kind"] == "result"]
    assert (code, told[1:]) == (0, ["no line matches", "link is not in the workspace"])
    assert sent[-1]["messages"][-3]["content"] == "n?"  # what is no Unicode cannot be sent


@pytest.mark.parametrize("program", ["native", pytest.param("text", marks=pytest.mark.deep)])
def test_a_command_ends_at_its_time_limit_with_all_it_started(run: Run, tmp_path: Path, program: str) -> None:
    os.mkfifo(tmp_path / "work/alive")
    reader = os.open(tmp_path / "work/alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        command = "(exec sleep 600 > alive) & wait"
        answer = calls(("run_command", {"command": command})) if program == "native" else {}
        answer |= {"content": f"```bash\n{command}\n```"} if program == "text" else {}
        code, _, trace, _ = run(program, [answer, {"content": "."}], limit="0.5")
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # nobody has it open
    finally:
        os.close(reader)
    [result] = [event for event in trace if event["kind"] == "result"]
    assert (code, result["ok"]) == (0, False)
    assert "was ended after 0.5 s" in result["text"]


def test_long_output_is_cut_in_its_middle(run: Run) -> None:
    made = calls(("run_command", {"command": "echo begin; head -c 50000 /dev/zero | tr '\\0' x; echo; echo end"}))
    _, _, trace, _ = run("native", [made, {"content": "."}])
    [text] = [event["text"] for event in trace if event["kind"] == "result"]
    assert text.startswith("exit code 0\nbegin\nxx")
    assert text.endswith("x\nend\n")
    assert 10_000 < len(text) < 10_100


def test_the_text_loop_runs_one_command_an_answer(run: Run, tmp_path: Path) -> None:
    first = "I write it.\n```bash\necho hi > x.txt; cat x.txt\n```\nThen\n```bash\nrm x.txt\n```\n"
    code, output, trace, sent = run("text", [{"content": first}, {"content": "x.txt says hi."}])
    assert (code, output, (tmp_path / "work/x.txt").read_text()) == (0, "x.txt says hi.", "hi\n")
    assert sent[-1]["messages"][-1] == {"role": "user", "content": "exit code 0\nhi\n"}
    assert [event["kind"] for event in trace] == ["user", "assistant", "call", "result", "assistant", "end"]


def test_a_block_ends_by_a_line_and_one_without_an_end_is_not_run(run: Run, tmp_path: Path) -> None:
    first, second = "```bash\necho '```' > x.txt\n```", "```bash\nrm x.txt"
    code, output, trace, sent = run("text", [{"content": first}, {"content": second}, {"content": "Done."}])
    assert (code, output, (tmp_path / "work/x.txt").read_text()) == (0, "Done.", "```\n")
    assert [event["ok"] for event in trace if event["kind"] == "result"] == [True, False]
    assert "Not run" in sent[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("program", ["native", pytest.param("text", marks=pytest.mark.deep)])
def test_a_server_that_fails_is_asked_again(run: Run, program: str) -> None:
    code, output, _, sent = run(program, [500, 429, {"content": "There."}])
    assert (code, output, len(sent)) == (0, "There.", 3)


def test_a_server_that_refuses_ends_it(run: Run) -> None:
    code, _, trace, sent = run("text", [401])
    assert (code, len(sent), trace[-1]["reason"]) == (4, 1, "error")


@pytest.mark.parametrize("broken", [503, None])
def test_a_server_that_only_fails_ends_it(run: Run, broken: Any) -> None:
    code, _, trace, sent = run("native", [broken])
    assert (code, len(sent), trace[-1]["reason"]) == (4, 5, "error")


def test_the_step_limit_ends_it(run: Run) -> None:
    code, output, trace, _ = run("native", [calls(("list_files", {"path": "."}))], 3)
    assert (code, output, trace[-1]["reason"]) == (3, "", "max_steps")
    assert sum(event["kind"] == "call" for event in trace) == 3


def test_they_are_plain() -> None:
    assert all(len((LOOPS / name).read_text().splitlines()) <= 150 for name in ("native.py", "text.py"))
