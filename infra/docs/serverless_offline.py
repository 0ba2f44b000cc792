"""What serverless-offline does in the tests of tests/gateway, for docs/local-cloud.md: a run, and the record of one.

`python -m infra.docs.serverless_offline` installs the Serverless Framework and serverless-offline from npm in a folder
outside the checkout, starts the application of `tests/gateway/serverless_offline` there, which does what that of
`tests/local/app` does, and runs the tests against it. It compares the outcomes with those that were recorded;
`--record` writes them. It needs Node.js 18 or later with npm, no account, and some minutes.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from infra.docs.conformance import ROOT

RECORD = Path(__file__).with_suffix(".json")
_APPLICATION = ROOT / "tests/gateway/serverless_offline"
_TESTS = "tests/gateway"
_PACKAGES = ("serverless", "serverless-offline")
_STARTS_S = 90


def recorded() -> dict[str, str]:
    """The outcome of each test of the recorded run: `passed`, `failed`, or `ended` if it ended the gateway."""
    outcomes: dict[str, str] = json.loads(RECORD.read_text("utf-8"))["tests"]
    return outcomes


def about() -> dict[str, str]:
    """The day of the recorded run, and the versions of what ran."""
    run: dict[str, str] = json.loads(RECORD.read_text("utf-8"))["run"]
    return run


class Offline:
    """serverless-offline in a folder, on ports of its own, started anew on the same ones when it has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._ports = _free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._ports[0]}"

    def ends(self, within_s: float = 0) -> bool:
        """Whether it has ended, or does so soon."""
        with suppress(subprocess.TimeoutExpired):
            return self._process is None or self._process.wait(within_s) is not None
        return False

    def ends_after_a_test(self) -> bool:
        """The same, when a test has ended: it tells of an error in its log, and ends a while later."""
        return self.ends(1) or (b"Uncaught exception" in self._log.read_bytes() and self.ends(60))

    def start(self) -> None:
        socket_port, http_port, lambda_port = map(str, self._ports)
        records = self._folder / "records"
        shutil.rmtree(records, ignore_errors=True)
        records.mkdir()
        environment = {
            **os.environ,
            "CALLBACK_URL": f"http://127.0.0.1:{socket_port}",
            "RECORDS": str(records),
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_REGION": "us-east-1",
            "SLS_TELEMETRY_DISABLED": "1",
            "SLS_NOTIFICATIONS_MODE": "off",
        }
        command = ["node", "node_modules/serverless/bin/serverless.js", "offline", "start", "--noSponsor"]
        command += ["--noPrependStageInUrl", "--host", "127.0.0.1", "--httpPort", http_port]
        command += ["--websocketPort", socket_port, "--lambdaPort", lambda_port]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _STARTS_S
        while not self._answers():  # it listens before it runs functions
            if self.ends() or time.monotonic() > deadline:
                raise RuntimeError(self._log.read_text("utf-8", "replace")[-4_000:])
            time.sleep(0.2)

    def _answers(self) -> bool:
        with suppress(OSError, TimeoutError, WebSocketException), connect(self.url, open_timeout=10) as client:
            client.send(json.dumps({"type": "command", "do": "event"}))
            return "requestContext" in json.loads(client.recv(10))
        return False

    def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class _Run:
    """A pytest plugin: after a test that failed, the next one gets a gateway that was started anew."""

    def __init__(self, offline: Offline) -> None:
        self._offline = offline
        self._is_clean = True
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if not self._is_clean or self._offline.ends():
            self._offline.stop()
            try:
                self._offline.start()
            except RuntimeError as error:
                pytest.exit(f"serverless-offline does not start: {error}")
            self._is_clean = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._is_clean &= report.passed
        if report.when == "call" or not report.passed:
            self.outcomes[report.nodeid] = "passed" if report.passed else "failed"
        if report.when == "teardown" and self._offline.ends_after_a_test():
            self.outcomes[report.nodeid] = "ended"


def run(folder: Path) -> dict[str, str]:
    """Run the tests against what is installed in the folder; gives the outcome of each."""
    offline = Offline(folder)
    os.environ["GATEWAY_URL"] = offline.url
    plugin = _Run(offline)
    options = ["-q", "--tb=line", "-p", "no:cacheprovider", "-m", "deep or not deep", _TESTS]
    try:
        ended = pytest.main(options, plugins=[plugin])
    finally:
        offline.stop()
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"the tests did not run to their end: {ended!r}")
    return plugin.outcomes


def install(folder: Path) -> dict[str, str]:
    """Install the framework and the application; gives the day, and the versions."""
    shutil.copytree(_APPLICATION, folder, dirs_exist_ok=True)
    npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    subprocess.run(npm, cwd=folder, check=True, stdout=sys.stderr)
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    manifests = {name: folder / "node_modules" / name / "package.json" for name in _PACKAGES}
    found = {name: json.loads(manifest.read_text("utf-8"))["version"] for name, manifest in manifests.items()}
    return {"day": f"{datetime.now(UTC):%Y-%m-%d}", **found, "node": node}


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="serverless-offline-") as name:
        versions = install(Path(name))
        outcomes = dict(sorted(run(Path(name)).items()))
    if "--record" in arguments:
        RECORD.write_text(
            json.dumps({"run": versions, "tests": outcomes}, indent=2, ensure_ascii=False) + "\n", "utf-8"
        )
    before = recorded()
    others = {test for test in {*before, *outcomes} if before.get(test) != outcomes.get(test)}
    for test in sorted(others):
        sys.stderr.write(f"{test}: {before.get(test)} in the recorded run, {outcomes.get(test)} now\n")
    return int(bool(others))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
