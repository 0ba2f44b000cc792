"""What forked processes share: few pages are copied, and objects still behave as usual."""

import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from codelab_local import LocalCloud
from codelab_local.functions import shared_memory

from tests.local.conftest import APP

HAS_IMMORTAL_OBJECTS = sys.version_info[:2] in ((3, 12), (3, 13))
PROGRAM = """
import json, sys
from codelab_local.functions import shared_memory

class Thing: ...
thing, table, text = Thing(), {"a": [1]}, "".join(["not ", "interned"])
made = shared_memory.make_immortal()
shared_memory.freeze()
seen = [sys.getrefcount(each) for each in (thing, table, text)]
held = [thing, table, text] * 5
again = [sys.getrefcount(each) for each in (thing, table, text)]
table["b"] = 2; table["a"].append(3); del held, table["b"]
later = Thing()
print(json.dumps([made, seen == again, table, sys.getrefcount(later)]))
"""


def outcome() -> str:
    """What the program prints. It must also end well."""
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout


def test_references_to_the_objects_of_now_are_not_counted_where_python_can_do_that() -> None:
    can = str(HAS_IMMORTAL_OBJECTS).lower()
    assert outcome() == f'[{can}, {can}, {{"a": [1, 3]}}, 2]\n'


def test_an_unknown_python_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory.sys, "version_info", (3, 99))
    assert not shared_memory.make_immortal()


@pytest.mark.deep  # a figure, beside the tests of what it is due to
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells what a process shares")
@pytest.mark.skipif(resource.getpagesize() != 4096, reason="larger pages are copied whole")
@pytest.mark.skipif(not HAS_IMMORTAL_OBJECTS, reason="this Python counts all references")
def test_a_worker_has_little_memory_of_its_own() -> None:
    """It is 4.7 MB; 7.4 MB if references are counted."""
    with LocalCloud(APP / "template.yaml") as cloud:
        for _ in range(3):
            cloud.invoke("command", {"do": "count", "kind": "none"})
        sizes = [psutil.Process(pid).memory_full_info().uss for pid in cloud.workers("command")]
    assert max(sizes) < 6 * 2**20
