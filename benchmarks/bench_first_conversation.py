"""Init of the four functions that start cold before the model is asked for the first time, under AWS's runtime client.

Processor time from the start of a process until it asks for its first event. Each function sees what it would see in
Lambda: its own packages, the layer's, and the runtime's, all with their bytecode. They alternate with a bare handler,
and with an argument also with the same functions of an older commit, or with `plain` without what
`codelab/process_start.py` does:

    python -m benchmarks.bench_first_conversation 2317c28

`imports FUNCTION` instead prints what a function imports, by package.
"""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from benchmarks.rig import ROOT

ROUNDS = 15
FUNCTIONS = ("authorize", "connect", "user_message", "llm_request")
#: What comes with Lambda's Python: the SDK, the runtime client, and what they need.
RUNTIME = (
    "awslambdaric", "boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "simplejson", "six",
    "snapshot-restore-py", "urllib3",
)  # fmt: skip


class SecretsManager(BaseHTTPRequestHandler):
    """Answers every call with a secret."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"SecretString": "s" * 64}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def link(names: list[str], folder: Path) -> None:
    """Make the packages importable from the folder."""
    folder.mkdir(parents=True)
    for name in names:
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform
        tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
        for top in tops:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(found.locate_file(top))))


def lay_out(tree: Path, folder: Path) -> None:
    """Lay out the functions of a source tree as Lambda does: task, layer and runtime."""
    link(list(RUNTIME), folder / "runtime")
    link(_named(tree / "layers/codelab/requirements.txt"), folder / "opt")
    (folder / "opt/codelab").symlink_to(tree / "layers/codelab/codelab")
    for name in FUNCTIONS:
        task = folder / "task" / name
        link(_named(tree / "functions" / name / "requirements.txt"), task)
        (task / "handler.py").symlink_to(tree / "functions" / name / "handler.py")


def _named(requirements: Path) -> list[str]:
    return re.findall(r"^([\w.-]+)==", requirements.read_text(), re.MULTILINE) if requirements.exists() else []


def init_ms(
    folder: Path, function: str, secrets: str, *options: str, log: int = subprocess.DEVNULL, start: str = ""
) -> float:
    """Milliseconds of a processor until a process of the function asks for an event; `start` is PROCESS_START."""
    with socket.create_server(("127.0.0.1", 0)) as runtime_api:
        runtime_api.settimeout(120)
        task = folder / "task" / function
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{task}:{folder / 'opt'}:{folder / 'runtime'}",
            "LAMBDA_TASK_ROOT": str(task),
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{runtime_api.getsockname()[1]}",
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_SESSION_TOKEN": "local",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_ENDPOINT_URL_SECRETS_MANAGER": secrets,
            "TABLE_NAME": "table",
            "PAYLOAD_BUCKET": "payloads",
            "LLM_FUNCTION": "llm-request",
            "LLM_PROVIDER": "openai",
            "CONTROL_FUNCTION": "control",
            "CONNECTIONS_URL": "https://api.execute-api.us-east-1.amazonaws.com/v1",
            "PROCESS_START": start,
            **dict.fromkeys(_SECRETS[function], "arn:aws:secretsmanager:us-east-1:123456789012:secret:s"),
        }
        process = subprocess.Popen(
            # Not the virtual environment's, which has more packages than Lambda.
            [os.path.realpath(sys.executable), *options, "-m", "awslambdaric", "handler.handler"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            with runtime_api.accept()[0]:
                tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
                return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6
        finally:
            process.kill()
            process.wait()


_SECRETS = {
    "authorize": ["JWT_SECRET_ARN"],
    "connect": [],
    "user_message": [],
    "llm_request": ["LLM_API_KEY_SECRET_ARN"],
    "bare": [],
}


def compare(folders: dict[str, Path], secrets: str) -> None:
    found: dict[tuple[str, str], list[float]] = {}
    for turn in range(ROUNDS + 1):
        for name, folder in folders.items():
            for function in ["bare"] if name == "bare" else FUNCTIONS:
                measured = init_ms(folder, function, secrets, start="plain" if name == "plain" else "")
                if turn:  # the first one leaves the bytecode
                    found.setdefault((name, function), []).append(measured)
    middle = {key: statistics.median(values) for key, values in found.items()}
    versions = [name for name in folders if name != "bare"]
    print("|  | " + " | ".join(versions) + " |" + "\n|---|" + "---|" * len(versions))
    for function in FUNCTIONS:
        print(f"| `{function}` | " + " | ".join(f"{middle[name, function]:.0f} ms" for name in versions) + " |")
    totals = [sum(middle[name, function] for function in FUNCTIONS) for name in versions]
    print("| **together** | " + " | ".join(f"**{total:.0f} ms**" for total in totals) + " |")
    print(f"a bare handler: {middle['bare', 'bare']:.0f} ms; now / before: {totals[-1] / totals[0]:.2f}")


def imports(folder: Path, function: str, secrets: str) -> None:
    init_ms(folder, function, secrets)
    with tempfile.TemporaryFile("w+") as log:
        init_ms(folder, function, secrets, "-X", "importtime", log=log.fileno())
        log.seek(0)
        found = re.findall(r"^import time: +(\d+) \| +\d+ \| +([\w.]+)", log.read(), re.MULTILINE)
    spent: Counter[str] = Counter()
    for microseconds, module in found:
        spent[".".join(module.split(".")[: 3 if module.startswith("codelab") else 1])] += int(microseconds)
    for package, microseconds in spent.most_common(30):
        print(f"{microseconds / 1000:8.1f} ms  {package}")


def main() -> None:
    arguments = sys.argv[1:]
    server = ThreadingHTTPServer(("127.0.0.1", 0), SecretsManager)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    secrets = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as temporary:
        folders = {"bare": Path(temporary) / "bare"}
        link(list(RUNTIME), folders["bare"] / "runtime")
        (folders["bare"] / "task/bare").mkdir(parents=True)
        (folders["bare"] / "task/bare/handler.py").write_text("def handler(event, context): ...\n")
        if arguments == ["plain"]:
            folders["plain"] = Path(temporary) / "now"
        elif arguments and arguments[0] != "imports":
            tree = Path(temporary) / "tree"
            tree.mkdir()
            archive = subprocess.run(["git", "archive", arguments[0]], cwd=ROOT, capture_output=True, check=True)
            subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
            folders[arguments[0]] = Path(temporary) / "before"
            lay_out(tree, folders[arguments[0]])
        folders["now"] = Path(temporary) / "now"
        lay_out(ROOT, folders["now"])
        if arguments[:1] == ["imports"]:
            imports(folders["now"], arguments[1], secrets)
        else:
            compare(folders, secrets)
    server.shutdown()


if __name__ == "__main__":
    main()
