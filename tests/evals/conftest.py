"""What a run of `python -m evals` would make."""

from collections.abc import Sequence

import pytest

from evals import runner


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[runner.Job]:
    """What a run would have made."""
    wanted: list[runner.Job] = []

    def run(given: Sequence[runner.Job], *_: object, **__: object) -> str:
        wanted.extend(given)
        return ""

    monkeypatch.setattr(runner, "run", run)
    return wanted
