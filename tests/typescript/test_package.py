"""The TypeScript client passes its own tests against the running system, and its types are strict."""

import os

from codelab_local import LocalCloud

from tests.client.breakable_proxy import BreakableProxy
from tests.node import node_with
from tests.processes import run
from tests.scripted_model import Says, ScriptedModel, call
from tests.typescript import NODE, PACKAGE

ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "CI": "1"}
#: A text that streams for a while.
LONG = "".join(f"w{n} " for n in range(400))


def scripts(model: ScriptedModel) -> None:
    """What the model answers to the messages of clients/typescript/tests/live."""
    model.script("ts-hello", Says("Hello from the model."))
    model.script("ts-long", Says(LONG, piece=8, delay=0.005))
    model.script("ts-read", Says("Reading.", [call("read_file", path="a.txt")]), Says("It was read."))
    model.script("ts-slow", Says(LONG, piece=8, delay=0.05))
    model.script(
        "ts-large", Says("", [call("write_file", path="a.txt", content="x" * 150_000)], piece=5_000), Says("No.")
    )
    model.script("ts-own", Says("", [call("lookup", word="turn")]), Says("It was looked up."))
    model.script("ts-write", Says("", [call("write_file", path="a.txt", content="new")]), Says("It was written."))


def test_the_package_passes_its_own_tests(cloud: LocalCloud, model: ScriptedModel) -> None:
    node = node_with(PACKAGE, NODE)
    scripts(model)
    with BreakableProxy(cloud.info["port"]) as proxy:
        environment = {"CODELAB_URL": cloud.http, "CODELAB_PROXY": f"http://127.0.0.1:{proxy.port}"}
        done = run(node, "node_modules/vitest/vitest.mjs", "run", cwd=PACKAGE, env={**ENVIRONMENT, **environment})
    print(done.stdout)  # noqa: T201 - with the sizes
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_are_strict() -> None:
    node = node_with(PACKAGE, NODE)
    done = run(node, "node_modules/typescript/bin/tsc", cwd=PACKAGE)
    assert done.returncode == 0, done.stdout
