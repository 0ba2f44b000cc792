"""Importing the application."""

import subprocess
import sys


def test_the_import_gives_no_warnings() -> None:
    """A warning would be logged at every cold start."""
    code = "from codelab.rest.app import create_app; create_app().openapi()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
