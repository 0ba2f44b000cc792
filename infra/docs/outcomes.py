"""A pytest plugin (`-p infra.docs.outcomes`): the session fails unless every test in docs/conformance.md passed.

A test that was skipped, deselected or not collected also fails the session.
"""

import pytest

from infra.docs.conformance import tests

_PASSED = pytest.StashKey[set[str]]()
_OTHERS = pytest.StashKey[set[str]]()
_MISSING = pytest.StashKey[list[str]]()


def missing(named: list[str], passed: set[str], others: set[str]) -> list[str]:
    """The `named` tests that did not pass.

    `passed` and `others` are the ids of the tests that ran, with parameters; a name without parameters stands for all.
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
        terminalreporter.line(f"did not pass: {name}")
    terminalreporter.line(f"{len(tests()) - len(found)} of {len(tests())} tests passed")
