"""What importing the application does."""

import subprocess
import sys


def test_it_warns_of_nothing() -> None:
    """A warning would be in the log of every cold start."""
    code = "from codelab.rest.app import create_app; create_app().openapi()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
