"""What a call of DynamoDB costs with our client and with others: processor time of the calling process.

    python -m benchmarks.aws_clients

All ask the same server, which is another process, by turns: our client, boto3's (`AWS_CLIENT=boto3`), and, with a
request that is signed already, urllib3 and httpx.
"""

import asyncio
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import urllib3

ROUNDS, CALLS = 9, 300
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n{}"
READ: dict[str, Any] = {"TableName": "Table", "Key": {"pk": {"S": "SESSION#1"}, "sk": {"S": "REGISTER"}}}


def serve(listener: socket.socket) -> None:
    """Answer every piece that arrives."""

    class Answering(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport: Any = transport

        def data_received(self, data: bytes) -> None:
            self._transport.write(ANSWER)

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Answering, sock=listener)
        await server.serve_forever()

    asyncio.run(run())


def clients(url: str) -> dict[str, Callable[[], object]]:
    from codelab.aws.boto3_clients import Boto3DynamoDB
    from codelab.aws.connections import Connections
    from codelab.aws.dynamodb import DynamoDB

    ours, theirs = DynamoDB(), Boto3DynamoDB()
    signer = Connections("dynamodb", url).signer
    request = signer.signed("POST", "/", {"X-Amz-Target": "DynamoDB_20120810.GetItem"}, b"{}")
    pool, client = urllib3.PoolManager(), httpx.Client()
    headers = dict(request.headers)
    return {
        "ours": lambda: ours.get_item(**READ),
        "boto3": lambda: theirs.get_item(**READ),
        "urllib3, only HTTP": lambda: pool.request("POST", url, headers=headers, body=request.body).data,
        "httpx, only HTTP": lambda: client.post(url, headers=headers, content=request.body).content,
    }


def cpu_us(call: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - began) / CALLS * 1e6


def main() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
        server.start()
        values = {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "eu-west-1"}
        os.environ.update({f"AWS_{name}": value for name, value in values.items()}, AWS_ENDPOINT_URL=url)
        made = clients(url)
        for call in made.values():
            call()
        times: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(ROUNDS):
            for name, call in made.items():
                times[name].append(cpu_us(call))
        server.kill()
        server.join()
    ours = statistics.median(times["ours"])
    print("| client | µs of CPU a call | beside ours |\n|---|---|---|")
    for name, each in times.items():
        median = statistics.median(each)
        print(f"| {name} | {median:.0f} ({min(each):.0f}–{max(each):.0f}) | {median / ours:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
