"""A certificate for servers of tests."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path) -> Path:
    """Write `cert.pem` and `key.pem` of a server named localhost, signed by itself. Returns the folder."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder
