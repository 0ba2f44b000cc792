"""A gateway that throttles is not stormed by the TypeScript client, and nothing is lost."""

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from codelab_local import LocalCloud

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run
from tests.security.test_storm import MOST_FRAMES, STORM_S, UNIT
from tests.throttling_proxy import ThrottlingProxy
from tests.typescript import NODE, PACKAGE

FIRST = ("hello", "resume", "user_message", "tool_result", "hitl_decision")


@pytest.mark.parametrize("first_frames", [FIRST[::3], pytest.param(FIRST, marks=pytest.mark.deep)])
def test_a_throttling_gateway_gets_a_dozen_frames_and_the_turn_ends_well(
    cloud: LocalCloud, model: ScriptedModel, first_frames: Sequence[str]
) -> None:
    node = node_with(PACKAGE, NODE)
    read, write = call("read_file", path="a.py"), call("write_file", path="a.py", content="x")
    model.script("ts-storm", Says("I read", [read]), Says("I write", [write]), Says("Done"))
    with ExitStack() as opened:
        storms = {
            first: opened.enter_context(ThrottlingProxy(cloud.info["port"], first, STORM_S)) for first in first_frames
        }
        urls = {first: f"ws://127.0.0.1:{proxy.port}" for first, proxy in storms.items()}
        environment = {"CODELAB_STORMS": json.dumps(urls), "CODELAB_STORM_UNIT": str(UNIT), "NO_COLOR": "1", "CI": "1"}
        vitest = ("node_modules/vitest/vitest.mjs", "run", "tests/live/storm.test.ts")
        done = run(node, *vitest, cwd=PACKAGE, env={**os.environ, **environment})
        assert done.returncode == 0, done.stdout + done.stderr
        for first, proxy in storms.items():
            print(f"storm from {first}: {len(proxy.refused)} frames in 30 s ({', '.join(proxy.refused)})")  # noqa: T201
            assert 0 < len(proxy.refused) <= MOST_FRAMES
            assert set(proxy.refused[1:]) <= {first, "hello", "resume"}, "only the handshake tries again"
