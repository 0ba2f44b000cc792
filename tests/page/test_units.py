"""The parts of the page that need no browser, tested with vitest; and the types of all of it."""

import subprocess

import pytest

from infra import page as page_build


@pytest.mark.parametrize("command", ["test", pytest.param("check", marks=pytest.mark.deep)])
def test_the_parts_of_the_page(built: None, command: str) -> None:
    npm, environment = page_build.install()
    done = subprocess.run(
        [*npm, "run", "--silent", command],
        cwd=page_build.WEB,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
