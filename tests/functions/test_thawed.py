"""A process that Lambda has frozen: what it kept open is not used again."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import boto3
from codelab.aws.connections import STALE_S
from codelab.aws.sdk import awake


def test_the_connections_of_a_client_that_slept_are_not_used_again() -> None:
    asked_from: list[tuple[str, int]] = []

    class Table(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked_from.append(self.client_address)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Table)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    now = 1_000.0
    made = boto3.client(
        "dynamodb",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        region_name="eu-west-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client = awake(made, clock=lambda: now)
    try:
        for slept in (0, STALE_S, STALE_S + 0.1, 0):
            now += slept
            client.get_item(TableName="table", Key={"pk": {"S": "x"}})
    finally:
        client.close()
        server.shutdown()
        thread.join(10)
        server.server_close()
    kept, same, other, other_too = asked_from
    assert kept == same != other == other_too
