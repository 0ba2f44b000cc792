"""A minimal client for the local cloud's own calls to the emulated AWS, on the standard library.

Importing boto3 and making six clients would add 0.6 s to the start.
"""

import http.client
import json
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from codelab_local.emulator.signatures import Credentials, sign

#: Reconnect after this many idle seconds: the emulator closes idle connections after five.
_KEPT_S = 2.0


class AwsError(Exception):
    """The emulator refused a call."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class AwsApi:
    """Blocking calls over one kept-alive connection to `127.0.0.1:port`. Not thread-safe."""

    def __init__(self, port: int, region: str, credentials: Credentials, timeout: float = 60.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._host = f"127.0.0.1:{port}"
        self._region = region
        self._credentials = credentials
        self._used_at = 0.0

    def close(self) -> None:
        self._connection.close()

    def request(
        self, service: str, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        unsigned_headers = {"Host": self._host, **(headers or {})}
        signed_headers = sign(self._credentials, self._region, service, method, path, unsigned_headers, body)
        if time.monotonic() - self._used_at > _KEPT_S:
            self._connection.close()
        try:
            self._connection.request(method, path, body, signed_headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # The next request reconnects.
            raise
        self._used_at = time.monotonic()
        if response.status >= 300:
            raise _error(response.status, answer)
        return answer

    def rest(self, service: str, method: str, path: str, body: Any = None) -> Any:
        """The REST-JSON protocol: Lambda, API Gateway v2, EventBridge Scheduler."""
        payload = b"" if body is None else json.dumps(body).encode()
        answer = self.request(service, method, path, payload, {"Content-Type": "application/json"})
        return json.loads(answer) if answer.strip() else {}

    def rest_all(self, service: str, path: str, key: str, token: str, parameter: str) -> list[dict[str, Any]]:
        """All pages of a REST-JSON listing: the items under `key`; `token` of a page is `parameter` of the next."""
        items: list[dict[str, Any]] = []
        page = path
        while True:
            answer = self.rest(service, "GET", page)
            items += answer.get(key) or []
            if not answer.get(token):
                return items
            page = f"{path}{'&' if '?' in path else '?'}{parameter}={quote(str(answer[token]), safe='')}"

    def target(self, service: str, target: str, body: Any) -> Any:
        """The JSON 1.1 protocol with `X-Amz-Target`: EventBridge, DynamoDB."""
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
        answer = self.request(service, "POST", "/", json.dumps(body).encode(), headers)
        return json.loads(answer) if answer.strip() else {}

    def cloudformation(self, action: str, parameters: Mapping[str, str]) -> ElementTree.Element:
        """The query protocol; returns the element `{action}Result`."""
        form = urlencode({"Action": action, "Version": "2010-05-15", **parameters}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        root = _without_namespace(self.request("cloudformation", "POST", "/", form, headers))
        result = root.find(f"{action}Result")
        return root if result is None else result


def _without_namespace(document: bytes) -> ElementTree.Element:
    root = ElementTree.fromstring(document)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _error(status: int, body: bytes) -> AwsError:
    text = body.decode("utf-8", "replace")
    try:
        if text.lstrip().startswith("<"):
            root = _without_namespace(body)
            return AwsError(status, root.findtext(".//Code") or "", root.findtext(".//Message") or text)
        answer = json.loads(text)
        code = str(answer.get("__type") or answer.get("code") or "").rpartition("#")[2]
        return AwsError(status, code, str(answer.get("message") or answer.get("Message") or text))
    except (ValueError, ElementTree.ParseError, AttributeError):
        return AwsError(status, "", text[:500])
