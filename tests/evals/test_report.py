"""The report: its figures, its tables, and its page, in which nothing that a model said becomes markup."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals import report
from tests.security.chromium import find

HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
KEYS = (
    *("sk-proj-abcdefghijkl0123", "AKIAABCDEFGHIJKL", "ghp_abcdefghijklmnopqrst", "github_pat_11ABCDEFG0abcdefghij"),
    *("Bearer abcdefgh12345678", "bearer abcdefgh12345678"),
    *("xai-abcdefghijklmnop0123", "hf_abcdefghijklmnop0123", "gsk_abcdefghijklmnop0123", "glpat-abcdefghijklmno0123"),
)


def line(label: str, task: str, solved: bool, **more: Any) -> dict[str, Any]:
    return {
        "label": label,
        "agent": label,
        "model": "m",
        "task": task,
        "kind": "debug",
        "language": "en",
        "held_out": False,
        "attempt": 0,
        "seed": 0,
        "reward": float(solved),
        "solved": solved,
        "end": "completed",
        "error": None,
        "answer": "Done.",
        "seconds": 10.0,
        "requests": 2,
        "prompt_tokens": 1000,
        "cached_tokens": 900,
        "completion_tokens": 50,
        "cost": 0.01,
        "steps": 2,
        "calls": {"edit_file": 1},
        "repeated": 0,
        "failed_calls": 0,
        "failed_edits": 0,
        "questions": 1,
        "repairs": 0,
        "restored": [],
        "grader": "solved",
        "diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n",
        "notes": [],
        "trace": f"traces/{label}/{task}-0.jsonl",
        **more,
    }


def results(folder: Path, runs: list[dict[str, Any]], events: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(run) + "\n" for run in runs)
    (folder / "runs.jsonl").write_text(text + '{"label": "cut', "utf-8")
    for run in runs:
        trace = folder / run["trace"]
        trace.parent.mkdir(parents=True, exist_ok=True)
        trace.write_text("".join(json.dumps(event) + "\n" for event in events or []), "utf-8")
    return folder


def runs_of_two() -> list[dict[str, Any]]:
    one = [line("old", f"t{n}", n < 2, cost=0.02) for n in range(24)]
    other = [line("new", f"t{n}", n < 20) for n in range(23)]
    failed = line("new", "t23", False, error="no server", reward=None, prompt_tokens=5)
    return [*one, *other, failed]


def test_the_figures(tmp_path: Path) -> None:
    report.write(results(tmp_path / "out", runs_of_two()))
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    new = found["labels"]["new"]
    wanted = {"runs": 23, "solved": 20, "harness_errors": 1, "cached_share": 0.9, "prompt_tokens": 23_000, "steps": 2}
    assert {name: new[name] for name in wanted} == wanted
    assert (new["cost_per_solved"], new["questions_per_solved"]) == (0.012, 1.15)
    assert new["kinds"] == {"debug": [20, 23]}
    [pair] = found["pairs"]
    assert (pair["tasks"], pair["gained"], pair["lost"]) == (23, 18, 0)
    assert 0.5 < pair["low"] < pair["mean"] < pair["high"]


def test_the_tables(tmp_path: Path) -> None:
    told = report.write(results(tmp_path / "out", runs_of_two()))
    assert "| new | 20/23  |" in told
    assert "old → new: +78% (" in told
    assert max(map(len, told.splitlines())) <= 100


def test_the_tables_of_three_agents_that_end_in_many_ways_fit_a_terminal() -> None:
    ends = ("completed", "error", "max_steps", "repetition", "time limit")
    labels = ("codelab", "native-loop", "text-loop")
    runs = [line(label, end, True, end=end, prompt_tokens=123_456) for label in labels for end in ends]
    told = report.markdown(report.summary(runs))
    assert max(map(len, told.splitlines())) <= 100
    assert "| ended: time limit    | 1 " in told


def test_attempts_at_one_task_count_as_one_pair(tmp_path: Path) -> None:
    runs = [line(label, "t", label == "b" and n > 0, attempt=n) for label in "ab" for n in range(4)]
    found = report.summary(runs)
    assert (found["labels"]["b"]["runs"], found["pairs"][0]["tasks"], found["pairs"][0]["mean"]) == (4, 1, 0.75)


def test_a_folder_without_a_solved_run_has_its_report_too(tmp_path: Path) -> None:
    report.write(results(tmp_path / "out", [line("one", "t", False, error="x", cost=None)]))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("before", ["It is ", "It is\n", "key:\t", "é="], ids=["space", "line", "tab", "letter"])
def test_a_key_is_in_nothing_that_is_written(key: str, before: str, tmp_path: Path) -> None:
    text = f"{before}{key}."
    run = line(f"one KEY={key}", "t", True, answer=text, grader=text, end=text)
    call = {"kind": "call", "id": "1", "tool": "run", "arguments": {"command": text, key: 1}}
    folder = results(tmp_path / "out", [run], [{"kind": "note", "text": text}, call])
    told = report.write(folder)
    secret = key.split(" ")[-1]
    assert secret not in told
    assert [
        name for name in ("results.json", "results.md", "index.html") if secret in (folder / name).read_text()
    ] == []


def test_a_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    folder = results(tmp_path / "out", [line("one", "t", True, diff="x" * 50_000)])
    report.write(folder)
    page = (folder / "index.html").read_text("utf-8")
    assert "30,000 characters more are in the results folder" in page
    assert len(page) < 40_000


def test_a_key_at_the_cut_is_masked_whole(tmp_path: Path) -> None:
    folder = results(tmp_path / "out", [line("one", "t", True, diff=" " * 19_985 + KEYS[0])])
    report.write(folder)
    assert KEYS[0][:12] not in (folder / "index.html").read_text("utf-8")


def test_a_name_in_code_is_no_key(tmp_path: Path) -> None:
    folder = results(tmp_path / "out", [line("one", "t", True, diff="hf_download_all_of_them()")])
    report.write(folder)
    assert "hf_download_all_of_them" in (folder / "index.html").read_text("utf-8")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_trace_may_have_any_line_separator(separator: str, tmp_path: Path) -> None:
    folder = results(tmp_path / "out", [line("one", "t", True)])
    event = {"kind": "assistant", "text": f"one{separator}two"}
    (folder / "traces/one/t-0.jsonl").write_text(json.dumps(event, ensure_ascii=False) + "\n", "utf-8")
    report.write(folder)
    assert f"one{separator}two" in (folder / "index.html").read_text("utf-8")


@pytest.mark.parametrize("cut", [b'{"kind": "call", "arguments": {"a": 1}', '{"text": "я'.encode()[:-1], b""])
def test_a_cut_line_of_a_trace_is_none(cut: bytes, tmp_path: Path) -> None:
    folder = results(tmp_path / "out", [line("one", "t", True)])
    (folder / "traces/one/t-0.jsonl").write_bytes(b'{"kind": "note", "text": "whole"}\n' + cut)
    report.write(folder)
    assert "whole" in (folder / "index.html").read_text("utf-8")


def test_a_run_cut_within_a_character_is_none(tmp_path: Path) -> None:
    folder = results(tmp_path / "out", [line("one", "t", True)])
    with (folder / "runs.jsonl").open("ab") as file:
        file.write("я".encode()[:1])
    assert "| one | 1/1 " in report.write(folder)


def test_what_a_model_said_cannot_end_the_data(tmp_path: Path) -> None:
    folder = results(
        tmp_path / "out", [line("one", "t", True, answer=HOSTILE)], [{"kind": "assistant", "text": HOSTILE}]
    )
    report.write(folder)
    page = (folder / "index.html").read_text("utf-8")
    assert page.count("</script>") == 2
    assert "<img" not in page


@pytest.mark.deep
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    program = find()
    if program is None:
        pytest.fail("make test-deep needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    runs = [line("one", "t1", True, answer=HOSTILE, diff="-old\n+" + HOSTILE), line("two", "t2", False, kind=HOSTILE)]
    folder = results(tmp_path / "out", runs, [{"kind": "assistant", "text": HOSTILE}])
    report.write(folder)
    problems: list[str] = []
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = running.new_page(viewport={"width": 400, "height": 800})
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto((folder / "index.html").as_uri())
        assert page.locator("li").count() == 2
        assert HOSTILE in page.locator("article").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.locator(".added").inner_text().startswith("+</script>")
        page.keyboard.press("j")
        page.get_by_role("heading", name="t2, two, attempt 1").wait_for()
        assert page.evaluate("location.hash") == "#two/t2/0"
        assert page.locator(".added").inner_text() == "+new\n"
        page.locator("[aria-current]").focus()
        page.keyboard.press("ArrowUp")
        page.get_by_role("heading", name="t1, one, attempt 1").wait_for()
        page.keyboard.press("ArrowDown")
        page.get_by_role("heading", name="t2, two, attempt 1").wait_for()
        page.get_by_label("all results").select_option("solved")
        assert page.locator("[role=status]").inner_text() == "1 of 2 attempts"
        assert page.locator("h2").inner_text() == "t1, one, attempt 1"
        page.get_by_label("search").fill("nothing has this")
        assert page.locator("[role=status]").inner_text() == "0 of 2 attempts"
        assert (page.title(), page.locator("img").count(), problems) == ("Evaluation", 0, [])
        running.close()
