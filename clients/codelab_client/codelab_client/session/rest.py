"""The parts of the REST API that a client needs beside its session."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from codelab_client.session import http, tokens
from codelab_client.session.address import Address, checked_session_id
from codelab_client.session.errors import InsecureAddress, InvalidAddress, Unauthorized

#: Messages of a page of the history, and of a session that are read at most.
_PAGE, _MOST = 100, 1_000


class RestError(Exception):
    """A request failed. The text says why. status: of HTTP; 0 if there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Rest:
    """The REST API beside a WebSocket. token: as for `connect`."""

    def __init__(self, address: Address, token: tokens.Token) -> None:
        self._address, self._token = address, token

    async def get(self, path: str) -> Any:
        """GET a path below `/api/v1`, such as `/agents`. Raises RestError."""
        return await self._send("GET", path)

    async def post(self, path: str, content: Mapping[str, Any], key: str = "") -> Any:
        """POST a JSON object to a path below `/api/v1`. key: makes a repeat harmless, see rest.md. Raises RestError."""
        return await self._send("POST", path, json.dumps(content).encode(), key)

    async def patch(self, path: str, content: Mapping[str, Any]) -> Any:
        """PATCH with a JSON object a path below `/api/v1`. Raises RestError."""
        return await self._send("PATCH", path, json.dumps(content).encode())

    async def delete(self, path: str) -> Any:
        """DELETE a path below `/api/v1`. Raises RestError."""
        return await self._send("DELETE", path)

    async def _send(self, method: str, path: str, body: bytes | None = None, key: str = "") -> Any:
        if not self._address.rest_url:
            raise RestError("The address of the REST API is not known: name it with --rest-url or CODELAB_REST_URL")
        url = self._address.rest_url + path
        try:
            headers = self._address.headers(await tokens.current(self._token), url)
            if body is not None:
                headers = {**headers, "content-type": "application/json"}
            if key:
                headers = {**headers, "idempotency-key": key}
            answer = await http.send(method, url, headers=headers, body=body, timeout_s=30)
            content = json.loads(answer.body)
        except (InsecureAddress, Unauthorized) as error:
            raise RestError(str(error)) from None
        except http.HttpError as error:
            raise RestError(f"{self._address.rest_url} does not answer: {error}") from None
        except (ValueError, RecursionError):
            raise RestError(
                f"{self._address.rest_url} does not answer with JSON (HTTP {answer.status})", answer.status
            ) from None
        if answer.status not in (200, 201):
            raise RestError(_message(content) or f"{path} was answered with HTTP {answer.status}", answer.status)
        return content

    async def history(self, session_id: str, limit: int) -> dict[str, Any]:
        """The newest messages of a session, oldest first, and its `last_seq`. Raises RestError."""
        content = await self.get(f"/chat/history/{of_session(session_id)}?limit={limit}")
        if not isinstance(content, dict):
            raise RestError("The history is not as documented")
        return content

    async def messages(self, session_id: str) -> tuple[list[dict[str, Any]], int]:
        """The newest messages of a session, oldest first, at most 1,000, and its `last_seq`. Raises RestError."""
        newest: list[dict[str, Any]] = []
        path = f"/chat/history/{of_session(session_id)}?limit={_PAGE}"
        last_seq, cursor = 0, None
        while len(newest) < _MOST:
            page = await self.get(path if cursor is None else f"{path}&cursor={quote(cursor, safe='')}")
            page_messages = page.get("messages") if isinstance(page, dict) else None
            if not isinstance(page_messages, list):
                break
            if cursor is None and isinstance(page.get("last_seq"), int):
                last_seq = max(0, page["last_seq"])
            newest = [message for message in page_messages if isinstance(message, dict)] + newest
            cursor = page.get("next_cursor")
            if not isinstance(cursor, str):
                break
        return newest[-_MOST:], last_seq


def of_session(session_id: str) -> str:
    """A session's id in a path. Raises RestError if it is not an id: `..` would lead to another resource."""
    try:
        return quote(checked_session_id(session_id), safe="")
    except InvalidAddress as error:
        raise RestError(str(error)) from None


def _message(content: Any) -> str:
    error = content.get("error") if isinstance(content, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else ""
