"""A pytest plugin (`-p infra.docs.outcomes`): the session fails unless every test that a page names passed.

The pages are docs/conformance.md and docs/local-cloud.md. A test that was skipped, deselected or not collected also
fails the session.
"""

from collections.abc import Sequence

import pytest

from infra.docs import conformance, local_cloud


def missing(named: list[str], passed: set[str], others: set[str]) -> list[str]:
    """The `named` tests that did not pass.

    `passed` and `others` are the ids of the tests that ran, with parameters; a name without parameters stands for all.
    """

    def has_passed(name: str) -> bool:
        def is_one(test: str) -> bool:
            return test == name or test.startswith((f"{name}[", f"{name}::"))

        return any(map(is_one, passed)) and not any(map(is_one, others))

    return [name for name in named if not has_passed(name)]


class Recorder:
    """A plugin that remembers which tests passed."""

    def __init__(self) -> None:
        self._passed: set[str] = set()
        self._others: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif not report.passed:
            self._others.add(report.nodeid)

    def missing(self, named: list[str]) -> list[str]:
        """The `named` tests that did not pass."""
        return missing(named, self._passed, self._others)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Outcomes(config.args))


class _Outcomes(Recorder):
    def __init__(self, arguments: Sequence[str]) -> None:
        """arguments: what is to run; if it names tests of one page, the other's are not missed."""
        super().__init__()
        named_tests = {*conformance.tests(), *local_cloud.tests()}
        self._named = sorted(named_tests.intersection(arguments) or named_tests)
        self._missing: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._missing = self.missing(self._named)
        if self._missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("docs/conformance.md and docs/local-cloud.md")
        for name in self._missing:
            terminalreporter.line(f"did not pass: {name}")
        terminalreporter.line(f"{len(self._named) - len(self._missing)} of {len(self._named)} tests passed")
