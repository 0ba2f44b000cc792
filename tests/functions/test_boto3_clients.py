"""The functions do the same with `AWS_CLIENT=boto3`: their own tests say so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: They call every service, lose races, are refused, and are counted.
SOME = [
    "test_lease.py",
    "test_push.py::test_a_batch_is_one_push_a_browser",
    "test_rotated_secrets.py::test_the_authorizer_takes_the_new_secret_and_no_longer_the_old",
    "test_tool_result.py::test_the_last_result_starts_the_next_step_in_one_read_one_transaction_and_one_invoke",
    "test_tool_result.py::test_another_result_for_a_settled_call_is_refused",
    "test_tool_result.py::test_the_result_that_ends_the_turn_posts_its_frames_and_clears",
]


def passed(*files: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    run = subprocess.run(
        tests, env={**environment, "AWS_CLIENT": "boto3"}, cwd=HERE.parents[1], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-4_000:]


def test_functions_work_with_boto3() -> None:
    passed(*(HERE / name for name in SOME))


@pytest.mark.deep
def test_all_functions_work_with_boto3() -> None:
    passed(*(file for file in sorted(HERE.glob("test_*.py")) if file != Path(__file__)))
