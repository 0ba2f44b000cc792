"""docs/local-cloud.md says what a run of its tests showed, and each row has a test."""

import pytest

from infra.docs import local_cloud, serverless_offline


def test_the_page_is_that_of_a_run_in_which_all_passed() -> None:
    assert local_cloud.problems() == []


def test_at_least_sixty_behaviours_that_aws_documents_are_compared() -> None:
    rows = [row for part in local_cloud.parts().values() for row in part]
    assert sum(bool(row.source) for row in rows) >= 60
    assert len({row.what for row in rows}) >= 100


def test_a_behaviour_whose_test_did_not_pass_fails_on_the_page() -> None:
    named = "tests/gateway/test_limits.py::test_a_binary_frame_closes_with_1003"
    page = local_cloud.page([named])
    (row,) = [line for line in page.splitlines() if "A binary frame" in line]
    assert row.startswith("| A binary frame closes the connection with 1003 | **fails** |")
    assert " 1 fail." in page
    assert " 0 fail." in local_cloud.page()


def test_what_serverless_offline_does_is_told_where_its_run_had_the_tests() -> None:
    rows = [row for part in local_cloud.parts().values() for row in part]
    page = local_cloud.page()
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines() if line.startswith("| ")}
    recorded = serverless_offline.recorded()
    assert set(recorded.values()) <= {"passed", "failed", "ended"}
    gateway = [row for row in rows if all(test.startswith("tests/gateway/") for test in row.tests)]
    assert len(gateway) >= 39
    for row in rows:
        has_column = lines[row.what].count(" | ") == 4
        assert has_column or row not in gateway, f"no column: {row.what}"
        if has_column:
            assert (lines[row.what].split(" | ")[2] == "–") == (row not in gateway), row.what


def test_a_row_whose_test_failed_there_must_say_how_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    named = "tests/gateway/test_connect.py::test_compression_is_not_negotiated"
    assert serverless_offline.recorded()[named] == "passed"
    monkeypatch.setattr(serverless_offline, "recorded", lambda: {named: "failed"})
    assert any("only then: Compression is not negotiated" in problem for problem in local_cloud.problems())
