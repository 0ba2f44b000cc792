"""The start, not the first message, reports a model that cannot be reached."""

import os
import subprocess
import sys

from codelab_local import LocalCloud

from tests.local.conftest import APP
from tests.waiting import until


def test_an_invalid_model_address_is_reported_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "codelab_local", "--template", str(APP / "template.yaml")],
        env={**os.environ, "PORT": "0", "LLM_BASE_URL": "nonsense"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "LLM_BASE_URL=nonsense is not a valid address: write it like https://host/v1\n"


def test_a_model_that_does_not_answer_is_only_a_warning():
    with LocalCloud(APP / "template.yaml", environment={"LLM_BASE_URL": "http://127.0.0.1:9/v1"}) as cloud:
        until(lambda: "no answer from the model at http://127.0.0.1:9/v1" in cloud.logs())
