"""Diffs that name one file to the server and another one to git or patch(1)."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from codelab.protocol.diffs import check_diff
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.tools import CATALOGUE

from tests.cases import cases
from tests.security.diffs import GIT, PATCH, Workspace, diffs
from tests.security.test_denials import remember, states
from tests.turns.world import World, refusal

HUNK = "@@ -1 +1 @@\n-one\n+evil\n"

REFUSED = {
    "an index line between the names": f"--- a/src/a.py\nindex 1234567..89abcde 100644\n+++ b/.env\n{HUNK}",
    "names that differ": f"--- a/src/a.py\n+++ b/.env\n{HUNK}",
    "names that differ from those of git": f"diff --git a/src/a.py b/src/a.py\n--- a/.env\n+++ b/.env\n{HUNK}",
    "no prefix, so that another part of the name is stripped": f"--- x/.env\n+++ x/.env\n{HUNK}",
    "an index that names a file for patch": f"Index: .env\n--- a/src/a.py\n+++ b/src/a.py\n{HUNK}",
    "a prerequisite of patch": f"Prereq: one\n--- a/src/a.py\n+++ b/src/a.py\n{HUNK}",
    "a context diff": "*** a/.env\n--- b/.env\n***************\n*** 1 ****\n! one\n--- 1 ----\n! evil\n",
    "a context diff after another": f"--- a/x\n+++ b/x\n{HUNK}*** a/.env\n--- b/.env\n***************\n*** 1 ****\n",
    "a script for ed": "Index: .env\n1c\nevil\n.\n",
    "a normal diff": "Index: .env\n1c1\n< one\n---\n> evil\n",
    "a binary patch": "diff --git a/.env b/.env\nindex 1234567..e69de29\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n",
    "a link instead of a file": "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/\n",
    "a link by its index": f"diff --git a/x b/x\nindex 1234567..89abcde 120000\n--- a/x\n+++ b/x\n{HUNK}",
    "a header that nobody knows": f"diff --git a/x b/x\nrename old x\n--- a/x\n+++ b/x\n{HUNK}",
    "a name that is given twice": "diff --git a/x b/y\nrename from x\nrename to y\nrename to .env\n",
    "a rename to another name than git's": "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to .env\n",
    "words before it": f"Here it is:\n--- a/src/a.py\n+++ b/src/a.py\n{HUNK}",
    "words after it": f"--- a/src/a.py\n+++ b/src/a.py\n{HUNK}+++ b/.env\n",
    "line ends of Windows in a name": f"--- a/src/a.py\r\n+++ b/src/a.py\r\n{HUNK}",
    "a time, by which patch tells that there is no file": f"--- a/x\t1970-01-01\n+++ b/x\t1970-01-01\n{HUNK}",
    "a name with a space, which two tools part differently": f"--- a/x b/.env\n+++ b/x b/.env\n{HUNK}",
    "a quoted name with an escape that is none": f'--- "a/\\x2eenv"\n+++ "b/\\x2eenv"\n{HUNK}',
    "a backslash, which parts names on Windows": f"--- a/x\\.env\n+++ b/x\\.env\n{HUNK}",
    "a hunk of more lines than it announces": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+evil\n+--- a/.env\n",
    "a hunk of fewer lines": f"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-one\n+evil\n--- a/.env\n+++ b/.env\n{HUNK}",
    "numbers that no counter holds": "--- a/x\n+++ b/x\n@@ -1,99999999999999999999 +1 @@\n-one\n+evil\n",
    "names alone": "--- a/.env\n+++ b/.env\n",
    "a header alone": "diff --git a/.env b/.env\nindex 1234567..89abcde 100644\n",
}


@cases("diff", REFUSED.values(), ids=REFUSED)
def test_ambiguous_diffs_are_refused_with_the_line(diff: str) -> None:
    error = refusal(lambda: CATALOGUE["apply_patch"].check({"diff": diff}))
    assert error.code in (ErrorCode.INVALID_ARGUMENTS, ErrorCode.INVALID_PATH)
    assert error.details["field"] == "diff"


def test_an_index_line_does_not_let_the_architect_patch_code() -> None:
    world = World(default_agent="architect", hitl_enabled=False)
    world.say("design it")
    hidden = f"--- a/plan.md\n+++ b/plan.md\n{HUNK}--- a/src/a.py\nindex 1..2 100644\n+++ b/src/a.py\n{HUNK}"
    world.answer("", ("apply_patch", {"diff": hidden}))
    assert world.of_type("tool_call") == [], "the IDE never sees it"
    assert json.loads(world.history()[-1][1])["error"]["code"] == "INVALID_ARGUMENTS"


def test_an_index_line_does_not_bypass_a_denial() -> None:
    world = World()
    remember(world, "reject", ("apply_patch", {"diff": f"--- a/.env\n+++ b/.env\n{HUNK}"}), pattern=".env")
    world.configure(autonomy="autonomous")
    indexed = f"--- a/.env\nindex 1234567..89abcde 100644\n+++ b/.env\n{HUNK}"
    assert states(world, ("apply_patch", {"diff": indexed})) == ["failed"]
    assert len(world.of_type("tool_call")) == 1


def test_a_large_diff_is_parsed_quickly() -> None:
    """Endless lines, endless numbers of lines, endless names: time is linear in the text."""
    body = "".join(f"-{'x' * 40}\n+{'y' * 40}\n" for _ in range(50_000))
    assert check_diff(f"--- a/x\n+++ b/x\n@@ -1,50000 +1,50000 @@\n{body}") == ["x"]
    long = ('diff --git "' + '\\"' * 100_000, "--- a/" + " \t" * 100_000 + "\n+++ b/x", "@@ -1 " * 100_000)
    for hostile in (f"{text}\nx\n" for text in long):
        with pytest.raises(ProtocolError):
            check_diff(hostile)


# -- the real programs -----------------------------------------------------------------------------------------------


def compared(folder: Path, seed: int, count: int) -> None:
    """With the real git and patch, an accepted diff changes only files that the server checked."""
    missing = [command[0] for command in (GIT, PATCH) if shutil.which(command[0]) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} must be installed, to be compared with the server's word")
    folder.mkdir()
    workspace = Workspace(folder)
    accepted, unchecked = 0, []
    for diff in diffs(seed, count):
        try:
            checked = set(check_diff(diff.text))
        except ProtocolError:
            assert not diff.is_plain, f"refused, and nothing is wrong with it:\n{diff.text}"
            continue
        accepted += 1
        for command in (GIT, PATCH):
            is_taken, changed = workspace.changed_by(command, diff.text)
            if diff.is_plain:
                assert is_taken, f"{command[0]} does not take\n{diff.text}"
                assert changed == diff.changes, f"{command[0]} changes {changed}\n{diff.text}"
            if not changed <= checked:
                unchecked.append((command[0], changed - checked, diff.text))
    found = f"{accepted} accepted, {count - accepted} refused, {len(unchecked)} changed a file that was not checked"
    sys.stdout.write(f"{count} diffs, {found}\n")
    assert not unchecked, unchecked[0]
    assert count / 10 < accepted < count * 9 / 10, "the sample tells nothing"


def test_git_and_patch_change_the_checked_files(tmp_path: Path) -> None:
    compared(tmp_path / "workspace", seed=1, count=600)


@pytest.mark.deep
def test_git_and_patch_change_the_checked_files_in_5000_diffs(tmp_path: Path) -> None:
    compared(tmp_path / "workspace", seed=2, count=5_000)
