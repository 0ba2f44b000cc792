"""Init of `rest_api` under AWS's own runtime client: from the start of its process until it asks for its first event.

It alternates with a bare function of the parts that any such function has: FastAPI and Mangum, a boto3 client, and
Powertools' Logger and Metrics. Both have their bytecode. The aim is at most 1.25 times the bare one. An empty handler
shows the share of Python and the runtime client.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.rig import ROOT, summary

ROUNDS = 20

EMPTY = "def handler(event, context): ...\n"
BARE = """
import boto3
from aws_lambda_powertools import Logger, Metrics
from fastapi import FastAPI
from mangum import Mangum

logger, metrics = Logger(service="bare"), Metrics(namespace="bare", service="bare")
table = boto3.client("dynamodb")
app = FastAPI()


@app.get("/things/{thing}")
def get_thing(thing: str) -> dict[str, str]:
    return {"thing": thing}


handler = Mangum(app, lifespan="off")
"""


def init_seconds(folder: Path) -> tuple[float, float]:
    """Seconds until one process asks for an event: on the clock, and of processor time, which others do not disturb."""
    with socket.create_server(("127.0.0.1", 0)) as runtime_api:
        runtime_api.settimeout(30)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "layers/codelab"))),
            "LAMBDA_TASK_ROOT": str(folder),
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{runtime_api.getsockname()[1]}",
            "AWS_LAMBDA_FUNCTION_NAME": folder.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "TABLE_NAME": "table",
            "CONNECTIONS_URL": "https://api.execute-api.us-east-1.amazonaws.com/v1",
        }
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", "handler.handler"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with runtime_api.accept()[0]:
                elapsed = time.perf_counter() - begun
                used = sum(psutil.Process(process.pid).cpu_times()[:2])
                return elapsed, used
        finally:
            process.kill()
            process.wait()


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folders = {"rest_api": ROOT / "functions/rest_api"}
        for name, source in {"bare": BARE, "empty": EMPTY}.items():
            folders[name] = Path(temporary) / name
            folders[name].mkdir()
            (folders[name] / "handler.py").write_text(source)
        for folder in folders.values():
            init_seconds(folder)  # leaves the bytecode
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in folders}
        for _ in range(ROUNDS):
            for name, folder in folders.items():
                found[name].append(init_seconds(folder))
    for place, what in enumerate(("by the clock", "of a processor")):
        print(what)
        for name, measured in found.items():
            print(f"  {name:10} {summary([it[place] for it in measured])}")
        pairs = zip(found["rest_api"], found["bare"], strict=True)
        print(f"  rest_api / bare: {statistics.median(rest[place] / bare[place] for rest, bare in pairs):.2f}")


if __name__ == "__main__":
    main()
