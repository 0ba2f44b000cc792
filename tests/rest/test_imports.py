"""Importing the application."""

import sys

from tests.processes import run


def test_the_import_gives_no_warnings() -> None:
    """A warning would be logged at every cold start."""
    code = "from codelab.rest.app import create_app; create_app().openapi()"
    done = run(sys.executable, "-W", "error", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
