"""The functions on moto, as in `tests/functions`, and a real browser."""

from collections.abc import Iterator

import pytest

from tests.client.conftest import codelab, environment, folder
from tests.functions.conftest import extended, system, template
from tests.security.chromium import Chromium, find

__all__ = ["browser", "codelab", "environment", "extended", "folder", "system", "template"]


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Chromium]:
    program = find()
    if program is None:
        if request.config.getoption("markexpr") == "not deep":
            pytest.skip("Chromium is not installed: apt-get install chromium")
        pytest.fail("make test-deep needs Chromium: apt-get install chromium")
    with Chromium(program, {"evil.test": "127.0.0.1"}) as running:
        yield running
