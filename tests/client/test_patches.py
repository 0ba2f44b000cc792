"""Diffs: what the server accepts, the client accepts, and a diff of two texts turns the first into the second."""

import difflib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from codelab.protocol.diffs import check_diff
from codelab.protocol.errors import ProtocolError
from codelab_client.tools import patches
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.patches import Patched
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.security.diffs import diffs

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "\n", "é\n", "-x\n", "+y\n", "@@ -1 +1 @@\n", "--- a/f\n"]), max_size=12
)
#: Diffs of every form, to be cut and mixed.
CORPUS = (
    "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n+b\n c\n",
    "--- a/f\n+++ b/f\n@@ -1 +1 @@ def x():\n-a\n+b\n\\ No newline at end of file\n",
    "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n",
    "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    "diff --git a/f b/f\nindex 1234567..89abcde 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
    "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
    "diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    "diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n",
    "diff --git a/n b/n\nnew file mode 100755\nindex 0000000..1234567\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n",
    "diff --git a/n b/n\ndeleted file mode 100644\nindex 1234567..0000000\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    'diff --git "a/\\303\\251" "b/\\303\\251"\n--- "a/\\303\\251"\n+++ "b/\\303\\251"\n@@ -1 +1 @@\n-a\n+b\n',
    "--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-a\n+b\n",
    "--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n",
    "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
)
ALL_LINES = sorted(
    {line for diff in CORPUS for line in diff.split("\n")} | {"\r", "GIT binary patch", "--- a/g", "+++ b/g"}
)


def unified(old: list[str], new: list[str]) -> str:
    """The diff of a file `f`, with marks where a line end is missing."""
    written = []
    for line in difflib.unified_diff(old, new, "a/f", "b/f", n=1):
        written.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(written)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_of_two_texts_turns_one_into_the_other(old: list[str], new: list[str], cut: bool, cut_new: bool) -> None:
    if old and new and old != new:
        old = [*old[:-1], old[-1].rstrip("\n") or "z"] if cut else old
        new = [*new[:-1], new[-1].rstrip("\n") or "z"] if cut_new else new
    if old == new or not old or not new:
        return
    diff = unified(old, new)
    assert check_diff(diff) == ["f"]
    after = patches.apply(patches.parse(diff), lambda names: Patched("".join(old), 0o644))
    assert after == {("f",): Patched("".join(new), 0o644)}


def verdict_of_the_server(diff: str) -> list[str] | str:
    try:
        return sorted(check_diff(diff))
    except ProtocolError as error:
        return error.code.value


def verdict(diff: str) -> list[str] | str:
    try:
        files = patches.parse(diff)
    except ToolFailure as failure:
        return failure.code
    return sorted({"/".join(names) for file in files for names in (file.old, file.new) if names})


def test_the_client_accepts_what_the_server_accepts_of_all_kinds_of_diffs() -> None:
    """Of those with which git and patch(1) are compared. One that the server has let pass must not fail here."""
    accepted = 0
    for diff in diffs(seed=7, count=1_500):
        expected = verdict_of_the_server(diff.text)
        if expected == []:  # A single line: the IDE refuses it.
            continue
        if isinstance(expected, list):
            assert verdict(diff.text) == expected, diff.text
            accepted += 1
        else:  # Of a diff that is wrong twice, each may say another thing.
            assert isinstance(verdict(diff.text), str), diff.text
    assert accepted > 300


@pytest.mark.parametrize("read", [check_diff, patches.parse])
def test_a_diff_of_many_files_is_read_in_linear_time(read: Callable[[str], object]) -> None:
    """A model chooses how many: 27,000 files in one megabyte took ten seconds."""

    def seconds(files: int) -> float:
        diff = "".join(f"--- a/f{number}\n+++ b/f{number}\n@@ -1 +1 @@\n-a\n+b\n" for number in range(files))
        began = time.thread_time()
        read(diff)
        return time.thread_time() - began

    small, large = (min(seconds(files) for _ in range(3)) for files in (1_000, 8_000))
    assert large < 32 * max(small, 0.005), "eight times the files: 8 times as long, and 64 times if it were quadratic"


@cases("end", ["", "\n", "\n\n", "\n\n\n"])
def test_an_empty_line_at_the_end_of_a_hunk_is_context_and_after_it_nothing(end: str) -> None:
    """Models leave out the space of an empty line of context."""
    diff = f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n{end or chr(10)}"
    before = {("f",): "a\n\n"}
    assert check_diff(diff) == ["f"]
    after = patches.apply(patches.parse(diff), lambda names: Patched(before[names], 0o644))
    assert after == {("f",): Patched("b\n\n", 0o644)}


@given(st.data())
def test_the_client_accepts_what_the_server_accepts(data: st.DataObject) -> None:
    lines = "".join(data.draw(st.lists(st.sampled_from(CORPUS), min_size=1, max_size=3))).split("\n")
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(ALL_LINES), max_size=1))
        lines = lines or [""]
    diff = "\n".join(lines)
    expected = verdict_of_the_server(diff)
    if expected != []:  # A single line: the IDE refuses it.
        assert verdict(diff) == expected


@pytest.mark.parametrize("text", ["x\n" * 100_000, "a" * 100, ""])
def test_a_large_file_is_patched_in_reasonable_time(text: str) -> None:
    """The place of a hunk that fits nowhere is given up, not searched for hours."""
    hunks = "".join(f"@@ -{n * 900 + 1},9 +{n * 900 + 1},9 @@\n" + " x\n" * 8 + "-y\n+z\n" for n in range(50))
    with pytest.raises(ToolFailure, match=r"does not match|too expensive"):
        patches.apply(patches.parse(f"--- a/f\n+++ b/f\n{hunks}"), lambda names: Patched(text, 0o644))


@pytest.mark.deep
@given(LINES, LINES)
def test_git_applies_a_diff_in_the_same_way(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]
) -> None:
    if old == new or not old or not new:
        return
    folder = tmp_path_factory.mktemp("git")
    file: Path = folder / "f"
    file.write_text("".join(old))
    diff = unified(old, new)
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], input=diff.encode(), cwd=folder, check=True)
    after = patches.apply(patches.parse(diff), lambda names: Patched("".join(old), 0o644))
    assert after[("f",)].text == file.read_text()
