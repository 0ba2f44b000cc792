"""The page of this machine to which a browser comes back from a provider (RFC 8252)."""

import asyncio
import hmac
from urllib.parse import parse_qs, urlsplit

_HEAD = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n"
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n\r\n"
)
_REQUEST_S = 10.0
_MOST_HEADERS = 100


class Redirect:
    """Takes the browser that comes back, and nobody else: any page can send a browser to this port."""

    def __init__(self, state: str) -> None:
        self.host = ""
        self.answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._state = state

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; for `asyncio.start_server`."""
        try:
            async with asyncio.timeout(_REQUEST_S):
                status, text = await self._status(reader)
                body = f"<!doctype html><title>codelab</title><p>{text}".encode()
                writer.write(_HEAD.format(status=status, length=len(body)).encode() + body)
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _status(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        method, _, remainder = (await reader.readline()).decode("ascii", "replace").partition(" ")
        target = urlsplit(remainder.partition(" ")[0])
        hosts = []
        for _ in range(_MOST_HEADERS):
            name, _, value = (await reader.readline()).decode("ascii", "replace").partition(":")
            if not value:
                break
            if name.lower() == "host":
                hosts.append(value.strip())
        if method != "GET" or target.path != "/" or hosts != [self.host]:
            return "404 Not Found", "There is nothing here."
        query = parse_qs(target.query, keep_blank_values=True)
        answer = {name: values[0] for name, values in query.items() if len(values) == 1}
        if not hmac.compare_digest(answer.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This is not the login that codelab waits for."
        if not self.answer.done():
            self.answer.set_result(answer)
        return "200 OK", "codelab has the answer. You can close this page."
