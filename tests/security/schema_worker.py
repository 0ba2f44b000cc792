"""Processes hostile schemas in a separate process, and reports the outcome and cost of each.

python -m tests.security.schema_worker FIRST COUNT
"""

import contextlib
import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from codelab.llm.caller import CallerBounds
from codelab.llm.client.bare import run_bare
from codelab.llm.client.request import Request
from codelab.llm.client.transport import Call
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest, ModelError
from codelab.protocol.errors import ProtocolError
from codelab.protocol.tools.declared import check_schema, declared_tool
from codelab.turns.model_answers import ANSWER

from tests.fakes.model.in_process import Body, InProcess
from tests.security.hostile_schemas import Hostile

#: A limit that ends the process before it affects the machine; far above the guarantees.
_ADDRESS_SPACE, _PATIENCE_S = 4 << 30, 60

BOUNDS = CallerBounds(frozenset({"m"}), "openai", 1_000_000)


def answering(answer: Any) -> InProcess:
    def say(body: Body, _call: Call) -> str:
        json.dumps(body)  # In the form for the provider.
        return json.dumps(answer)

    return InProcess(say)


def ask(schema: Any, answer: Any) -> str:
    """The schema in a bare Request, and an answer to it."""
    payload = {"context": [{"role": "user", "content": "x"}], "schema": schema, "config": {"max_repairs": 1}}
    try:
        run_bare(payload, answering(answer), defaults={"model": "m"}, bounds=BOUNDS)
    except InvalidRequest:
        return "refused"
    except ModelError:
        return "no solution"
    return "answered"


def declare(schema: Any, answer: Any) -> str:
    """The schema as a declared tool's, a step with the tool, and a call."""
    try:
        check_schema(schema)
    except ValueError:
        return "refused"
    tool = declared_tool({"name": "t", "description": "d", "parameters": schema, "read_only": False})
    offered: dict[str, Any] = {"type": "tool", "name": "t", "description": "d", "parameters": tool.parameters}
    context: list[dict[str, Any]] = [{"role": "system", "content": offered}, {"role": "user", "content": "x"}]
    request = Request(RequestConfig("m", max_repairs=0), ANSWER, context, remember=False)
    arguments = answer if isinstance(answer, dict) else {"a": answer}
    with contextlib.suppress(ModelError):
        request.run(answering({"message": "", "calls": [{"_tool": "t", **arguments}]}))
    try:
        tool.check(arguments)
    except ProtocolError:
        return "no solution"
    return "answered"


def peak_megabytes() -> float:
    """The process's peak memory. Not `ru_maxrss`, which starts with the parent's."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1e3


def main(first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    for seed in range(first, first + count):
        hostile = Hostile(seed)
        for use in (ask, declare):
            for answer in hostile.answers:
                signal.alarm(_PATIENCE_S)  # Kills the process: compiled code cannot be interrupted otherwise.
                started = time.process_time()
                outcome = use(hostile.schema, answer)
                took = time.process_time() - started
                signal.alarm(0)
                row = [seed, hostile.kind, use.__name__, outcome, round(took, 3), round(peak_megabytes())]
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
