"""Edits whose `old` is right but for whitespace: where they land, what is written, and what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from codelab_client.acp.previews import preview
from codelab_client.differences import difference
from codelab_client.terminal.changes import edited
from codelab_client.tools.edits import Edit, Edited, apply
from codelab_client.tools.executor import Executor
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.workspace import DiskWorkspace

from tests.cases import cases
from tests.client.calls import result

FILE = (
    "class A:\n    def add(self, a, b):  \n        # sum\n        return a - b\n\n    def two(self):\n        return 2"
)


def edit(text: str, old: str, new: str) -> Edited:
    return apply(text, [Edit(old, new)], "a.py")


@cases(
    ("old", "new", "expected", "lines"),
    [
        # spaces at the end of a line
        (
            "    def add(self, a, b):\n        # sum",
            "    def add(self, a, b, c):\n        # sum",
            FILE.replace("a, b):  ", "a, b, c):"),
            "lines 2-3",
        ),
        # not indented at all
        (
            "def add(self, a, b):\n    # sum\n    return a - b\n",
            "def add(self, a, b):\n    # sum\n\n    return a + b\n",
            FILE.replace("b):  ", "b):").replace("# sum\n        return a - b", "# sum\n\n        return a + b"),
            "lines 2-4",
        ),
        # indented too far
        (
            "            # sum\n            return a - b",
            "            return a + b",
            FILE.replace("# sum\n        return a - b", "return a + b"),
            "lines 3-4",
        ),
        # the last line, which has no end
        (
            "def two(self):\n    return 2\n",
            "def two(self):\n    return 3\n",
            FILE.replace("return 2", "return 3"),
            "lines 6-7",
        ),
        # removed
        ("# sum\nreturn a - b\n", "", FILE.replace("        # sum\n        return a - b\n", ""), "lines 3-4"),
    ],
)
def test_lines_that_differ_in_whitespace_are_found_and_the_new_ones_indented(
    old: Any, new: Any, expected: Any, lines: Any
) -> None:
    assert edit(FILE, old, new) == (expected, 1, f"{lines}, whitespace differs")


def test_line_ends_stay_as_they_are() -> None:
    crlf, mixed = "if a:\r\n    b \r\n    c\r\nd", "if a:\r\n    b \n    c\r\nd"
    assert edit(crlf, "b\nc", "b\nx").text == "if a:\r\n    b\r\n    x\r\nd"
    assert edit(crlf, "b\nc\n", "x\n").text == "if a:\r\n    x\r\nd"
    assert edit(mixed, "b\nc", "b\nx").text == "if a:\r\n    b\n    x\r\nd"


def test_tabs_are_indentation_as_well() -> None:
    assert edit("\tif a:\n\t\tb\n", "if a:\n\tb", "if c:\n\tb").text == "\tif c:\n\t\tb\n"


@cases(
    ("text", "old", "new"),
    [
        ("  a\n  b\n  a\n  b\n", "a\nb", "c"),  # two places
        ("  a\n    b\n", "a\nb", "c"),  # not the same indentation for all lines
        ("\ta\n\tb\n", "    a\n    b", "c"),  # tabs are no spaces
        ("a\nb\n", "  a\n  b", "c\n  d"),  # the new text has not enough to take away
        ("  a\n  b\n", "a\nb", "  a\n  b"),  # an edit of whitespace
        ("  a\n  b\n", "a\nbb", "c"),  # other words
        ("  a b\n  c\n", "a  b\nc", "x"),  # whitespace within a line
        ("a\n\n\nb\n", "\n \n", "x"),  # nothing but whitespace
    ],
)
def test_what_is_not_sure_is_refused(text: str, old: str, new: str) -> None:
    with pytest.raises(ToolFailure, match="does not occur"):
        edit(text, old, new)


def test_an_edit_that_is_made_already_is_told_so() -> None:
    with pytest.raises(ToolFailure, match=r"The new text does \(line 2\).*The closest lines are:\n2\tb = 25"):
        edit("a\nb = 25\n", "b = 20", "b = 25")


def test_what_occurs_exactly_is_taken_although_other_lines_are_like_it() -> None:
    assert edit("  a\n  b\na\nb\n", "\na\nb", "\nc") == ("  a\n  b\nc\n", 1, "")


def test_replacing_everything_stays_exact() -> None:
    with pytest.raises(ToolFailure, match="does not occur"):
        apply("  a\n  b\n", [Edit("a\nb", "c", replace_all=True)], "a.py")


def test_of_several_edits_those_that_were_not_exact_are_named() -> None:
    done = apply("  a\n  b\nc\n", [Edit("c", "d"), Edit("a\nb", "x\ny")], "a.py")
    assert done == ("  x\n  y\nd\n", 2, "edit 2: lines 1-2, whitespace differs")


def test_a_file_that_is_made_to_take_long_does_not() -> None:
    with pytest.raises(ToolFailure):
        edit(" a\n" * 200_000, "a\n" * 50_000 + "a", "b")


def test_what_the_user_approves_is_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(FILE)
    edits = [{"old": "def add(self, a, b):\n    # sum\n", "new": "def add(self, *numbers):\n"}]
    shown = edited(tmp_path.resolve(), "a.py", edits)
    workspace = DiskWorkspace(tmp_path)
    given = {"path": "a.py", "edits": edits}
    (drawn,) = [each for each in asyncio.run(preview("edit_file", given, workspace)) if each["type"] == "diff"]
    outcome = result(Executor(workspace), "edit_file", **given)
    written = (tmp_path / "a.py").read_text()
    assert (
        written == FILE.replace("def add(self, a, b):  \n        # sum", "def add(self, *numbers):") == drawn["newText"]
    )
    assert shown == difference(FILE, written, "a.py")
    assert outcome == {"success": True, "replacements": 1, "matched": "lines 2-3, whitespace differs"}
