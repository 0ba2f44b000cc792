"""A pytest plugin (`-p infra.docs.outcomes`): the session fails unless every test of docs/conformance.md has passed.

A test that was skipped, deselected or never collected has shown nothing, so it fails the session too.
"""

import pytest

from infra.docs.conformance import tests

_PASSED = pytest.StashKey[set[str]]()
_OTHERS = pytest.StashKey[set[str]]()
_MISSING = pytest.StashKey[list[str]]()


def missing(named: list[str], passed: set[str], others: set[str]) -> list[str]:
    """Those of the `named` tests that have not passed, whichever way they were run.

    `passed` and `others` are the ids of what ran, with their parameters; a name without parameters means all of them.
    """

    def has_passed(name: str) -> bool:
        def is_one(test: str) -> bool:
            return test == name or test.startswith((f"{name}[", f"{name}::"))

        return any(map(is_one, passed)) and not any(map(is_one, others))

    return [name for name in named if not has_passed(name)]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_PASSED], config.stash[_OTHERS] = set(), set()


class _Reports:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._config.stash[_PASSED].add(report.nodeid)
        elif not report.passed:
            self._config.stash[_OTHERS].add(report.nodeid)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Reports(session.config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    config.stash[_MISSING] = missing(tests(), config.stash[_PASSED], config.stash[_OTHERS])
    if config.stash[_MISSING] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(_MISSING, [])
    terminalreporter.section("docs/conformance.md")
    for name in found:
        terminalreporter.line(f"not shown to pass: {name}")
    terminalreporter.line(f"{len(tests()) - len(found)} of {len(tests())} tests of the page have passed")
