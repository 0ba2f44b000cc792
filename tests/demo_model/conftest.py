from collections.abc import Iterator

import pytest

from tests.demo_model.driver import Chat, demo_model


@pytest.fixture(scope="session")
def base_url() -> Iterator[str]:
    with demo_model() as url:
        yield url


@pytest.fixture
def chat(base_url: str) -> Chat:
    return Chat(base_url)
