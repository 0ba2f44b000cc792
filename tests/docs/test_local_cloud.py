"""docs/local-cloud.md says what a run of its tests showed, and each row has a test."""

from infra.docs import local_cloud


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
