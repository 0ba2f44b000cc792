"""The checks of docs/conformance.md: places and tests exist, nothing is missing, and all tests pass."""

from infra.docs.conformance import HEAD, HEAD_OF_EXTENSIONS, PAGE, problems, rows
from infra.docs.outcomes import missing

TEXT = PAGE.read_text(encoding="utf-8")


def page(*lines: str) -> str:
    return "\n".join([f"| {' | '.join(HEAD)} |", "|---|---|---|", *lines])


def complaints(line: str) -> list[str]:
    """The problems of this row, the third line of a page."""
    return [problem for problem in problems(page(line)) if not problem.startswith("no row is about")]


def test_the_page_is_complete_and_its_places_and_tests_exist() -> None:
    assert problems(TEXT) == []


def test_only_tables_are_parsed() -> None:
    (row,) = rows(page("| `a` and \\| `b` | `config.Settings` `template.yaml` | `x.py::test_y` `z.py::test_z[1]` |"))
    assert (row.line, row.places) == (3, ("config.Settings", "template.yaml"))
    assert row.tests == ("tests/x.py::test_y", "tests/z.py::test_z[1]")
    assert list(rows("| a | b | c |\n|---|---|---|\n| `a` | `b` | `c` |")) == []


def test_a_place_is_a_module_a_member_a_model_field_or_a_file() -> None:
    test = "`docs/test_conformance.py::test_only_tables_are_parsed`"
    for place in ("config", "config.Settings.table_name", "protocol.incoming.UserMessage.content", "template.yaml"):
        assert complaints(f"| x | `{place}` | {test} |") == []
    absent = ("nowhere", "config.nothing", "protocol.incoming.UserMessage.mood", "nothing.yaml", "template.yaml::x")
    for place in absent:
        assert complaints(f"| x | `{place}` | {test} |") == [f"line 3: no such place: {place}"]


def test_missing_tests_are_reported() -> None:
    for test in ("docs/test_conformance.py::test_nothing", "docs/test_none.py::test_x"):
        assert complaints(f"| x | `config` | `{test}` |") == [f"line 3: no such test: tests/{test}"]


def test_a_row_without_a_place_needs_a_reason() -> None:
    test = "`docs/test_conformance.py::test_a_row_without_a_place_needs_a_reason`"
    assert complaints(f"| x | not implemented: nobody needs it | {test} |") == []
    assert complaints(f"| x | somewhere | {test} |") == ["line 3: no places"]
    assert complaints("| x | `config` | |") == ["line 3: no tests"]


def test_codes_tools_and_frames_without_a_row_are_reported() -> None:
    test = "`docs/test_conformance.py::test_a_row_without_a_place_needs_a_reason`"
    missed = problems(page(f"| `GIT_ERROR` | `config` | {test} |"))
    assert "no row is about GIT_ERROR" not in missed
    for name in ("ENCODING_ERROR", "BUSY", "move_file", "read_result", "tool_call", "call_update", "withdraw"):
        assert f"no row is about {name}" in missed
    named = problems(page(f"| `withdraw.client_msg_id` | `config` | {test} |"))
    assert "no row is about withdraw" not in named


def test_the_extensions_have_a_table_of_their_own() -> None:
    head = " | ".join(HEAD_OF_EXTENSIONS)
    (row,) = rows(f"| {head} |\n|---|---|---|\n| `ping` | `nowhere` | `x.py::test_y` |")
    assert (row.said, row.places) == ("`ping`", ("nowhere",))
    assert any(row.said.startswith("`assistant_thought`") for row in rows(TEXT))


def test_only_tests_that_passed_in_all_cases_count() -> None:
    named = ["t.py::test_a", "t.py::test_b", "t.py::test_c[1]", "t.py::test_d", "t.py::test_e"]
    passed = {"t.py::test_a", "t.py::test_b[1]", "t.py::test_c[1]", "t.py::test_dd"}
    failed_or_skipped = {"t.py::test_b[2]", "t.py::test_c[2]", "t.py::test_e"}
    assert missing(named, passed, failed_or_skipped) == ["t.py::test_b", "t.py::test_d", "t.py::test_e"]
