"""What a call costs with our own transport and with the openai SDK's: processor time of the calling process.

    python -m benchmarks.llm_transports

Both ask the same model, which is another process, alternately. Then new processes import each of them, after all that
`llm_request` imports in any case.
"""

import statistics
import subprocess
import sys
import time
from typing import Any

from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.openai_sdk import SdkTransport
from codelab.llm.client.transport import Call

from benchmarks.rig import ROOT, instant_model

ROUNDS = 200
PROCESSES = 9
HISTORY = 50
PIECES = (1, 200)

IMPORT = """
import sys, time
sys.path.insert(0, "layers/codelab")
from codelab import wiring
import codelab.engine.step_runner
began = time.process_time()
from codelab.llm.client.{module} import {name}
{name}(base_url="https://127.0.0.1:9/v1", api_key="x")
print(1000 * (time.process_time() - began))
"""


def cpu_ms(transport: Any, pieces: int) -> float:
    messages = [{"role": "user", "content": "Some words of a conversation. " * 10}] * (HISTORY - 1)
    body = {
        "model": "instant",
        "stream": True,
        "messages": [*messages, {"role": "user", "content": f"pieces={pieces} rate=2000"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
    }
    began = time.process_time()
    for _ in transport.send(body, Call()):
        pass
    return 1000 * (time.process_time() - began)


def import_ms(kind: type) -> float:
    code = IMPORT.format(module=kind.__module__.rpartition(".")[2], name=kind.__name__)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return float(run.stdout)


def main() -> int:
    kinds = (DirectTransport, SdkTransport)
    with instant_model() as url:
        transports = {kind: kind(base_url=url, api_key="x") for kind in kinds}
        for pieces in PIECES:
            found: dict[type, list[float]] = {kind: [] for kind in kinds}
            for _ in range(ROUNDS if pieces == 1 else ROUNDS // 10):
                for kind, transport in transports.items():
                    found[kind].append(cpu_ms(transport, pieces))
            ours, theirs = (statistics.median(found[kind]) for kind in kinds)
            print(f"a call with {pieces:3} pieces {ours:8.2f} ms; the SDK {theirs:8.2f} ms; {ours / theirs:.2f} times")
    loaded: dict[type, list[float]] = {kind: [] for kind in kinds}
    for _ in range(PROCESSES):
        for kind in kinds:
            loaded[kind].append(import_ms(kind))
    ours, theirs = (statistics.median(loaded[kind]) for kind in kinds)
    print(f"import and setup      {ours:8.0f} ms; the SDK {theirs:8.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
