"""Texts with a line that stands for code that was left out: refused once, because they would replace that code."""

from pathlib import Path

import pytest
from codelab_client.tools.executor import Executor
from codelab_client.tools.placeholders import Placeholders, is_placeholder
from codelab_client.tools.workspace import DiskWorkspace

from tests.cases import cases
from tests.client.calls import execute, result

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
LAZY = "def a():\n    return 3\n\n\n# ... existing code ...\n"


@cases(
    "line",
    [
        *("# ... existing code ...", "// ...existing code...", "    // ... rest of the code unchanged"),
        *("/* ... */ // rest of file", "// rest of the code remains the same", "<!-- rest of the file -->"),
        *("{/* ... existing code ... */}", "# ... (rest of the implementation is unchanged)"),
        *("... rest of the file ...", "-- existing code here", "[rest of the file unchanged]"),
        *("// other methods ...", "# keep the rest as is", "# code omitted for brevity"),
        *("// … остальной код без изменений", "# остальной код без изменений", "# ... существующий код ..."),
        *("// остальная часть файла", "# Остальные методы остаются без изменений"),
        *("// ... restlicher Code unverändert ...", "# ... resto del código ...", "// ... reste du code ..."),
        *("// 其余代码保持不变", "# ... 现有代码 ..."),
    ],
)  # fmt: skip
def test_such_lines_are_placeholders(line: str) -> None:
    assert is_placeholder(line)


@cases(
    "line",
    [
        *("...", "# ...", "    ...", "// ...", "", "# The rest of the file is parsed lazily", "// other methods"),
        *("...rest,", "  ...existing", "const { a, ...rest } = props", "f(...other, ...old)", "# Existing code"),
        *("# Imports", 'print("... and the rest of the code")', "# unchanged", "rest of the code"),
        *("existing = code", "# TODO: implement", "<Rest />", "# the same as in the parser"),
        *("# остальные аргументы разбирает argparse", "raise NotImplementedError"),
    ],
)  # fmt: skip
def test_other_lines_are_not(line: str) -> None:
    assert not is_placeholder(line)


def test_a_file_is_not_replaced_by_one_that_leaves_code_out_unless_that_is_said_twice(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    executor = Executor(DiskWorkspace(tmp_path))
    result(executor, "read_file", path="a.py")
    refused = execute(executor, "write_file", path="a.py", content=LAZY)
    assert refused.error is not None
    assert refused.error.code == "EXECUTION_FAILED"
    assert "line 5 of the new text, `# ... existing code ...`" in refused.error.message
    assert (tmp_path / "a.py").read_text() == CODE
    assert execute(executor, "write_file", path="a.py", content=f"{LAZY}\n").error is not None, "it is another text"
    assert result(executor, "write_file", path="a.py", content=LAZY)["success"]
    assert (tmp_path / "a.py").read_text() == LAZY
    assert result(executor, "write_file", path="a.py", content=f"{LAZY}x = 1\n")["success"], "it was there before"


def test_an_edit_is_refused_by_the_text_that_it_replaces(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"{CODE}# ... existing code ...\n")
    executor = Executor(DiskWorkspace(tmp_path))
    lazy = [{"old": "    return 1\n", "new": "    # ... existing code ...\n    return 3\n"}]
    refused = execute(executor, "edit_file", path="a.py", edits=lazy)
    assert refused.error is not None
    assert refused.error.code == "PATCH_APPLY_FAILED"
    kept = [{"old": "    return 2\n# ... existing code ...\n", "new": "    return 4\n# ... existing code ...\n"}]
    assert result(executor, "edit_file", path="a.py", edits=kept)["success"]
    assert result(executor, "edit_file", path="a.py", edits=lazy)["success"], "the second time it is meant"


def test_few_texts_are_remembered() -> None:
    guard = Placeholders()
    for number in range(1_000):
        with pytest.raises(Exception, match="left out"):
            guard.check("a.py", f"{number}\n{LAZY}", CODE, "EXECUTION_FAILED")
    assert len(guard._refused_keys) == 100
