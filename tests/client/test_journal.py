"""The journal of executed calls, across crashes and processes."""

import subprocess
import sys
from pathlib import Path

import pytest
from codelab_client.session.errors import JournalError
from codelab_client.session.journal import Claim, Journal

DIE_WHILE_EXECUTING = """
import os, pathlib, sys
from codelab_client.session.journal import Journal
journal = Journal(pathlib.Path(sys.argv[1]), "s")
print(journal.begin("c1", "read_file", 1).name, flush=True)
os._exit(9)
"""


def test_a_call_starts_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "s")
    assert journal.begin("c1", "read_file", 1) is Claim.NEW
    assert journal.begin("c1", "read_file", 1) is Claim.RUNNING
    assert journal.finish("c1", {"result": 1}) == {"result": 1}
    assert journal.finish("c1", {"result": 2}) == {"result": 1}
    assert journal.begin("c1", "read_file", 1) is Claim.FINISHED


def test_results_are_there_after_a_restart_until_they_are_settled(tmp_path: Path) -> None:
    first = Journal(tmp_path, "s")
    first.begin("c1", "read_file", 1)
    first.finish("c1", {"result": {"content": "ü"}})
    first.close()
    second = Journal(tmp_path, "s")
    [entry] = second.unsettled()
    assert entry.outcome == {"result": {"content": "ü"}}
    second.settle("c1")
    assert second.unsettled() == []


def test_another_process_sees_whether_the_owner_lives(tmp_path: Path) -> None:
    alive, other = Journal(tmp_path, "s"), Journal(tmp_path, "s")
    alive.begin("c1", "read_file", 1)
    assert other.begin("c1", "read_file", 1) is Claim.RUNNING
    assert not other.is_interrupted("c1")
    alive.close()
    assert other.begin("c1", "read_file", 1) is Claim.INTERRUPTED
    assert other.is_interrupted("c1")


def test_a_call_of_a_killed_process_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DIE_WHILE_EXECUTING, str(tmp_path)]
    died = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (died.returncode, died.stdout.strip()) == (9, "NEW")
    assert Journal(tmp_path, "s").begin("c1", "read_file", 1) is Claim.INTERRUPTED


def test_sessions_are_apart(tmp_path: Path) -> None:
    one, other = Journal(tmp_path, "one"), Journal(tmp_path, "other")
    assert one.begin("c1", "read_file", 1) is Claim.NEW
    assert other.begin("c1", "read_file", 1) is Claim.NEW
    one.position = 7
    assert (one.position, other.position) == (7, 0)
    one.forget()
    assert one.position == 0
    assert one.begin("c1", "read_file", 1) is Claim.NEW


@pytest.mark.parametrize("what", ["a file in place of the folder", "no database"])
def test_a_journal_that_cannot_be_written_says_what_to_do(tmp_path: Path, what: str) -> None:
    if what == "no database":
        (tmp_path / "journal.sqlite3").write_text("this is no database " * 100)
        folder = tmp_path
    else:
        folder = tmp_path / "file"
        folder.write_text("")
    with pytest.raises(JournalError, match="XDG_STATE_HOME"):
        Journal(folder, "s")
