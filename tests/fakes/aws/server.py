"""AWS over HTTP, for tests of what goes over the wire: any service, answered as the test says."""

from tests.fakes.http import Exchange, HttpServer, response


class AwsServer(HttpServer):
    """`answers` are sent one per request: bytes as they are, b"" as a close; None is no answer. Then `{}` is."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes | None] = []

    def handle(self, exchange: Exchange) -> None:
        answer = self.answers.pop(0) if self.answers else response(200, {})
        if answer is not None:
            exchange.send(answer)
            exchange.closes = not answer
