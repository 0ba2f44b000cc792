"""The extension for VS Code: its own tests in a faked editor, its types, its view in a browser, its package."""

import os
from pathlib import Path

from codelab_local import LocalCloud

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run
from tests.typescript import NODE, PACKAGE

EXTENSION = PACKAGE.parent / "vscode"
#: Replaces the second line of a.txt, after it was read.
EDIT = call("edit_file", path="a.txt", edits=[{"old": "two\n", "new": "three\n"}])
COMMAND = "echo out; echo err >&2; echo [$ELECTRON_RUN_AS_NODE]; exit 3"


def scripts(model: ScriptedModel) -> None:
    """What the model answers to the messages of clients/vscode/test."""
    model.script("vscode-hello", Says("Hello."))
    model.script("vscode-edit", Says("", [call("read_file", path="a.txt")]), Says("", [EDIT]), Says("It was changed."))
    model.script("vscode-command", Says("", [call("run_command", command=COMMAND)]), Says("It ran."))
    model.script("vscode-sleep", Says("", [call("run_command", command="echo begun; sleep 60")]), Says("It ended."))
    read, write = call("read_file", path="link/passwd"), call("write_file", path="link/codelab-test", content="x")
    model.script("vscode-outside", Says("", [read]), Says("", [write]), Says("It is outside."))


def test_the_extension_passes_its_own_tests(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    node = node_with(EXTENSION, NODE)
    scripts(model)
    built = run(node, "test/build.mjs", str(tmp_path), cwd=EXTENSION)
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "CODELAB_URL": cloud.http, "XDG_STATE_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}
    tests = sorted(map(str, tmp_path.glob("*.test.cjs")))
    assert len(tests) > 1
    done = run(node, "--test", "--test-concurrency=1", *tests, cwd=EXTENSION, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_strictly_typed() -> None:
    """Against the interface of the oldest editor that it names."""
    node = node_with(EXTENSION, NODE)
    done = run(node, "node_modules/typescript/bin/tsc", cwd=EXTENSION)
    assert done.returncode == 0, done.stdout
