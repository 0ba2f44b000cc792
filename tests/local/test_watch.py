"""The next invocation uses changed sources and variables; broken ones keep the old code."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from tests.local.conftest import APP
from tests.waiting import until


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "app"
    shutil.copytree(APP, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of variables that does not exist yet, nor does its folder."""
    return tmp_path_factory.mktemp("home") / "config" / "model.env"


@pytest.fixture(scope="module")
def cloud(source: Path, variables: Path) -> Iterator[LocalCloud]:
    with LocalCloud(source / "template.yaml", env_file=variables) as running:
        yield running


def becomes(cloud: LocalCloud, expected: Any, what: str = "word") -> None:
    until(lambda: cloud.invoke("command", {"do": what}) == expected)


def shown(cloud: LocalCloud, text: str) -> str:
    """Wait for the line of the log that contains `text`."""
    return until(lambda: [line for line in cloud.logs().splitlines() if text in line])[0]


def test_functions_share_a_module_that_is_preloaded(cloud: LocalCloud) -> None:
    assert cloud.invoke("command", {"do": "phrase"}) == ["first", True]


def test_the_next_invocation_uses_changed_code(cloud: LocalCloud, source: Path) -> None:
    becomes(cloud, "first")
    (source / "functions" / "command" / "words.py").write_text('WORD = "second"\n')
    becomes(cloud, "second")


def test_a_syntax_error_keeps_the_old_code(cloud: LocalCloud, source: Path) -> None:
    words = source / "functions" / "command" / "words.py"
    before = words.read_text()
    words.write_text('WORD = "third\n')
    line = shown(cloud, "SyntaxError")
    assert line.startswith("[command] cannot load the changed code, keeping the previous version: SyntaxError: ")
    assert "words.py, line 1" in line
    assert cloud.invoke("command", {"do": "word"}) in before
    words.write_text('WORD = "fourth"\n')
    becomes(cloud, "fourth")


def test_a_changed_layer_reloads_its_functions(cloud: LocalCloud, source: Path) -> None:
    before = {name: set(found["workers"]) for name, found in cloud.functions().items()}
    layer = source / "layers" / "shared" / "python" / "sample" / "__init__.py"
    layer.write_text(layer.read_text() + "\n")
    until(lambda: not any(before[name] & set(found["workers"]) for name, found in cloud.functions().items()))
    assert cloud.invoke("command", {"a": 1}) == {"a": 1}


def test_a_changed_module_is_no_longer_the_shared_one(cloud: LocalCloud, source: Path) -> None:
    # The test before this one changed the layer, so that this worker has imported it itself.
    becomes(cloud, ["first", False], "phrase")
    (source / "layers" / "shared" / "python" / "phrases.py").write_text("PHRASE, SHARED = 'second', False\n")
    becomes(cloud, ["second", False], "phrase")


def test_a_running_request_finishes_when_the_source_changes(cloud: LocalCloud, source: Path, tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    with ThreadPoolExecutor() as pool:
        event = {"do": "describe", "begun": str(begun), "until": str(go_on)}
        running = pool.submit(cloud.invoke, "command", event)
        until(begun.exists)
        (source / "functions" / "command" / "words.py").write_text('WORD = "fifth"\n')
        becomes(cloud, "fifth")
        assert not running.done()
        go_on.touch()
        assert running.result(30)["pid"]


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file by another one, as `codelab setup` does."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(mode)
    new.replace(path)


def passed(cloud: LocalCloud) -> str | None:
    value: str | None = cloud.invoke("command", {"do": "environment"}).get("PASSED")
    return value


def test_the_next_invocation_has_the_changed_variables(cloud: LocalCloud, variables: Path, tmp_path: Path) -> None:
    assert passed(cloud) is None
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    with ThreadPoolExecutor() as pool:
        running = pool.submit(cloud.invoke, "command", {"do": "describe", "begun": str(begun), "until": str(go_on)})
        until(begun.exists)
        write(variables, "PASSED=secret-1\nANOTHER=2\n")
        until(lambda: passed(cloud) == "secret-1")
        go_on.touch()
        assert running.result(30)["pid"]
    assert shown(cloud, "from now on").endswith(f"variables of {variables}: PASSED, ANOTHER")
    assert "secret-1" not in cloud.logs()


def test_variables_that_cannot_be_used_change_nothing(cloud: LocalCloud, variables: Path) -> None:
    write(variables, "PASSED=before\n")
    until(lambda: passed(cloud) == "before")
    for text, mode, complaint in (
        ("PASSED=open\n", 0o644, "others can read or own"),
        ("PASSED=1\nLLM_BASE_URL=file:///etc/passwd\n", 0o600, "is not a valid address"),
        ("PASSED=1\nLOCAL_CONCURRENCY=many\n", 0o600, "LOCAL_CONCURRENCY must be"),
        ("PASSED=1\nSTEPS=many\n", 0o600, "STEPS must be an integer"),
    ):
        write(variables, text, mode)
        shown(cloud, complaint)
        assert passed(cloud) == "before"


def test_variables_go_with_their_file(cloud: LocalCloud, variables: Path) -> None:
    write(variables, "PASSED=before\n")
    until(lambda: passed(cloud) == "before")
    variables.unlink()
    until(lambda: passed(cloud) is None)
