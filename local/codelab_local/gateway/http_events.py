"""The events that API Gateway sends to an HTTP API's functions, payload format 2.0.

API Gateway developer guide, "Create AWS Lambda proxy integrations for HTTP APIs" and "Control access to HTTP APIs with
AWS Lambda authorizers".
"""

import base64
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote

from codelab_local.http.protocol import Request
from codelab_local.template.deployment import Api

#: Bodies of these types are passed as text, others in base64.
_TEXT = ("text/", "application/json", "application/javascript", "application/xml")


@dataclass(frozen=True, slots=True)
class HttpEventBuilder:
    """Builds the events of one API."""

    api: Api
    account: str
    region: str

    def request(
        self, request: Request, route_key: str, path_parameters: dict[str, str], authorizer: dict[str, Any] | None
    ) -> dict[str, Any]:
        """The event for the integration; `authorizer` is the Lambda authorizer's context."""
        event = self._common(request, route_key, path_parameters)
        cookies = [cookie.strip() for cookie in request.headers.get("cookie", "").split(";") if cookie.strip()]
        if cookies:
            event["cookies"] = cookies
            event["headers"].pop("cookie")
        if authorizer is not None:
            event["requestContext"]["authorizer"] = {"lambda": authorizer}
        if request.body:
            event["body"], event["isBase64Encoded"] = _body(request)
        return event

    def authorize(self, request: Request, route_key: str, path_parameters: dict[str, str]) -> dict[str, Any]:
        """The event for a REQUEST authorizer."""
        path = request.path.lstrip("/")
        arn = f"arn:aws:execute-api:{self.region}:{self.account}:{self.api.api_id}/{self.api.stage}/"
        event = self._common(request, route_key, path_parameters)
        del event["isBase64Encoded"]
        return {**event, "type": "REQUEST", "routeArn": f"{arn}{request.method}/{path}", "identitySource": []}

    def _common(self, request: Request, route_key: str, path_parameters: dict[str, str]) -> dict[str, Any]:
        now, path = time.time(), unquote(request.path)
        domain = f"{self.api.api_id}.execute-api.{self.region}.amazonaws.com"
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": route_key,
            "rawPath": path,
            "rawQueryString": request.query,
            "headers": {
                **request.headers,
                "host": domain,
                "x-forwarded-for": request.peer,
                "x-forwarded-port": "443",
                "x-forwarded-proto": "https",
            },
            "requestContext": {
                "accountId": self.account,
                "apiId": self.api.api_id,
                "domainName": domain,
                "domainPrefix": self.api.api_id,
                "http": {
                    "method": request.method,
                    "path": path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": request.peer,
                    "userAgent": request.headers.get("user-agent", ""),
                },
                "requestId": base64.b64encode(uuid.uuid4().bytes[:11]).decode(),
                "routeKey": route_key,
                "stage": self.api.stage,
                "time": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
                "timeEpoch": int(now * 1000),
            },
            "isBase64Encoded": False,
        }
        query = parse_qs(request.query, keep_blank_values=True)
        if query:  # Absent without a query; several values of a name are joined.
            event["queryStringParameters"] = {name: ",".join(values) for name, values in query.items()}
        if path_parameters:
            event["pathParameters"] = path_parameters
        if self.api.stage_variables:
            event["stageVariables"] = self.api.stage_variables
        return event


def _body(request: Request) -> tuple[str, bool]:
    if request.headers.get("content-type", "").lower().startswith(_TEXT):
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(request.body).decode(), True
