"""What a conversation is played on: the emulator with the template's table, and the functions' processes."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from xml.sax.saxutils import unescape

from codelab.sessions.dynamodb.values import from_dynamodb
from codelab_local.emulator.aws_api import AwsApi
from codelab_local.emulator.server import Emulator
from codelab_local.template.sam_template import read_template

from tests.quotas import UNLIMITED

ROOT = Path(__file__).parents[2]
REGION = "eu-central-1"
TABLE, BUCKET = "codelab-faults", "codelab-faults-payloads"

_START_S = 60.0

#: An item as DynamoDB writes it.
Stored = dict[str, Any]
#: What is in the bucket, by key.
Objects = dict[str, bytes]

_ENVIRONMENT = {
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "TABLE_NAME": TABLE,
    "PAYLOAD_BUCKET": BUCKET,
    "CONNECTIONS_URL": "http://connections.invalid/v1",
    "LLM_FUNCTION": "codelab-llm-request",
    "STREAM_MAX_DELAY_MS": "0",
    "TOOL_TIMEOUT_S": "120",
    "REMEMBER_COMMANDS": "true",
    "APPROVAL_TIMEOUT_S": "600",
    "DEFAULT_AGENT": "universal",
    "MAX_CONTEXT_TOKENS": "8000",
    "LOG_LEVEL": "ERROR",
}


class Stage:
    """`with Stage() as stage`. Everything that it starts ends with it."""

    def __init__(self, **environment: str) -> None:
        """`environment` is laid over what the functions' processes have."""
        self._environment = {**_ENVIRONMENT, **UNLIMITED, **environment}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="codelab-faults-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        (folder / "emulator-folder").mkdir()
        self._emulator = Emulator(folder / "emulator-folder", REGION, None)
        self._emulator.start(["dynamodb", "s3"])
        address = str(folder / "workers")
        self._listener = Listener(address)
        self._listener._listener._socket.settimeout(_START_S)  # type: ignore[attr-defined]
        self._log = (folder / "functions.log").open("w+")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self._functions = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.functions", address],
            cwd=ROOT,
            env={**kept, **self._environment, **self._access()},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            text=True,
        )
        self._idle: list[Connection] = []
        self._api: AwsApi = self._emulator.wait()
        properties = json.loads(read_template(ROOT / "template.yaml").body)["Resources"]["Table"]["Properties"]
        wanted = ("BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
        self._definition = {"TableName": TABLE, **{name: properties[name] for name in wanted}}
        self._call("CreateTable", self._definition)
        where = f"<LocationConstraint>{REGION}</LocationConstraint>"
        wanted_there = f"<CreateBucketConfiguration>{where}</CreateBucketConfiguration>"
        self._api.request("s3", "PUT", f"/{BUCKET}", wanted_there.encode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._idle:
            worker.close()
        assert self._functions.stdin is not None
        self._functions.stdin.close()
        try:
            self._functions.wait(10)
        except subprocess.TimeoutExpired:
            self._functions.kill()
        self._listener.close()
        self._emulator.stop()
        self._log.close()
        self._folder.cleanup()

    def _access(self) -> dict[str, str]:
        keys = self._emulator.credentials
        signed_with = {"AWS_ACCESS_KEY_ID": keys.key_id, "AWS_SECRET_ACCESS_KEY": keys.secret}
        return {**signed_with, "AWS_ENDPOINT_URL": self._emulator.url}

    def log(self) -> str:
        """What the functions have logged."""
        return Path(self._log.name).read_text()

    # -- workers -------------------------------------------------------------------------------------------------

    @contextmanager
    def worker(self) -> Iterator[Connection]:
        """A process that waits for an order. Afterwards it waits for the next one, unless it has died (OSError)."""
        worker = self._idle.pop() if self._idle else self._fork()
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        else:
            self._idle.append(worker)

    def _fork(self) -> Connection:
        stdin = self._functions.stdin
        assert stdin is not None
        try:
            stdin.write("\n")
            stdin.flush()
            return self._listener.accept()
        except (BrokenPipeError, TimeoutError):
            raise RuntimeError(f"the functions do not start:\n{self.log()}") from None

    # -- the table -----------------------------------------------------------------------------------------------

    def items(self) -> list[Stored]:
        """Everything in the table."""
        found: list[Stored] = self._call("Scan", {"TableName": TABLE, "ConsistentRead": True})["Items"]
        return found

    def fill(self, items: list[Stored], objects: Objects) -> None:
        """Leave exactly `items` in the table, and `objects` in the bucket."""
        for key in self._keys() - objects.keys():
            self._api.request("s3", "DELETE", f"/{BUCKET}/{quote(key)}")
        for key, body in objects.items():
            self.upload(key, body)
        self._call("DeleteTable", {"TableName": TABLE})
        self._call("CreateTable", self._definition)
        for start in range(0, len(items), 25):
            puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
            self._call("BatchWriteItem", {"RequestItems": {TABLE: puts}})

    def objects(self) -> Objects:
        """Everything in the bucket."""
        return {key: self._api.request("s3", "GET", f"/{BUCKET}/{quote(key)}") for key in self._keys()}

    def upload(self, key: str, body: bytes) -> None:
        """Put an object, as a client does that has a ticket for it."""
        self._api.request("s3", "PUT", f"/{BUCKET}/{quote(key)}", body)

    def _keys(self) -> set[str]:
        listing = self._api.request("s3", "GET", f"/{BUCKET}?list-type=2").decode()
        return {unescape(key) for key in re.findall("<Key>([^<]*)</Key>", listing)}

    def due_at(self, pk: str) -> int | None:
        """When the session or one of its children is due, as their registers say."""
        register = {
            "FilterExpression": "sk = :register AND begins_with(pk, :pk)",
            "ExpressionAttributeValues": {":register": {"S": "REGISTER"}, ":pk": {"S": pk}},
        }
        items = self._call("Scan", {"TableName": TABLE, "ConsistentRead": True, **register})["Items"]
        times: list[int] = [item["due_at"] for item in map(from_dynamodb, items) if "due_at" in item]
        return min(times, default=None)

    def _call(self, action: str, body: dict[str, Any]) -> Any:
        return self._api.target("dynamodb", f"DynamoDB_20120810.{action}", body)
