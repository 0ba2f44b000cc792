"""What a client says about its session in `hello`."""

import json
from typing import Any

from tests.functions.system import System


def hello(system: System, **fields: Any) -> dict[str, Any]:
    system.send_raw("c1", "control", json.dumps({"type": "hello", **fields}))
    answer = system.aws.frames("c1")[-1]
    assert isinstance(answer, dict)
    return answer


def test_hello_changes_the_metadata_by_name(extended: System) -> None:
    hello(extended, metadata={"cwd": "/a", "project": "sorting"})
    hello(extended, metadata={"cwd": "/b", "project": None})
    assert json.loads(extended.item("ABOUT")["metadata"]) == {"cwd": "/b"}


def test_the_same_metadata_is_not_written_again(extended: System) -> None:
    hello(extended, metadata={"cwd": "/a"})
    before = extended.item("REGISTER")["version"]
    hello(extended, metadata={"cwd": "/a"})
    assert extended.item("REGISTER")["version"] == before


def test_too_much_metadata_is_refused_and_changes_nothing(extended: System) -> None:
    error = hello(extended, metadata={"cwd": "x" * 20_000}, request_id="r1")
    assert (error["error_code"], error["details"]["field"], error["request_id"]) == (
        "PAYLOAD_TOO_LARGE",
        "metadata",
        "r1",
    )
    assert "ABOUT" not in [sk for _, sk in extended.all_keys()]
