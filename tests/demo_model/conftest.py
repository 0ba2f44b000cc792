from collections.abc import Iterator

import pytest
from codelab_local.demo_model import serve

from tests.demo_model.driver import Chat


@pytest.fixture(scope="session")
def base_url() -> Iterator[str]:
    with serve() as url:
        yield url


@pytest.fixture
def chat(base_url: str) -> Chat:
    return Chat(base_url)
