"""The events that API Gateway sends to a WebSocket API's functions, and their ids.

API Gateway developer guide, "Lambda authorizer input" and "$context variables for WebSocket APIs": CONNECT has headers
and query but no messageId, MESSAGE has a body but neither headers nor query, DISCONNECT has the close code and reason.
"""

import base64
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from codelab_local.template.deployment import Api


def new_connection_id() -> str:
    """An id like AWS's: 16 characters that end in `=`, such as `L0SM9cOFvHcCIhw=`."""
    return base64.b64encode(os.urandom(11)).decode()


def new_request_id() -> str:
    """An extended request id like AWS's."""
    return base64.b64encode(os.urandom(11)).decode()


@dataclass(slots=True)
class Caller:
    """A connection's data in events; `authorizer` is the authorizer's context."""

    connection_id: str
    source_ip: str
    user_agent: str
    connected_at: int
    headers: dict[str, list[str]]
    query: dict[str, list[str]]
    authorizer: dict[str, Any] | None = None
    last_active_at: int = 0


@dataclass(frozen=True, slots=True)
class EventBuilder:
    """Builds the events of one API."""

    api: Api
    account: str
    region: str

    @property
    def domain_name(self) -> str:
        return f"{self.api.api_id}.execute-api.{self.region}.amazonaws.com"

    def authorize(self, caller: Caller, route_key: str) -> dict[str, Any]:
        """The event for a REQUEST authorizer."""
        arn = f"arn:aws:execute-api:{self.region}:{self.account}:{self.api.api_id}/{self.api.stage}/{route_key}"
        return {"type": "REQUEST", "methodArn": arn, **self.connect(caller)}

    def connect(self, caller: Caller) -> dict[str, Any]:
        event: dict[str, Any] = {
            "headers": _last(caller.headers),
            "multiValueHeaders": caller.headers,
            "requestContext": self._context(caller, "$connect", "CONNECT"),
            "isBase64Encoded": False,
        }
        if caller.query:
            event["queryStringParameters"] = _last(caller.query)
            event["multiValueQueryStringParameters"] = caller.query
        return self._with_stage(event)

    def message(self, caller: Caller, route_key: str, body: str) -> dict[str, Any]:
        context = self._context(caller, route_key, "MESSAGE")
        context["messageId"] = new_connection_id()
        return self._with_stage({"requestContext": context, "body": body, "isBase64Encoded": False})

    def disconnect(self, caller: Caller, status: int, reason: str) -> dict[str, Any]:
        context = self._context(caller, "$disconnect", "DISCONNECT")
        context["disconnectStatusCode"] = status
        context["disconnectReason"] = reason
        headers = {"Host": self.domain_name, "x-api-key": "", "X-Forwarded-For": "", "x-restapi": ""}
        value_lists = {name: [value] for name, value in headers.items()}
        return self._with_stage(
            {"headers": headers, "multiValueHeaders": value_lists, "requestContext": context, "isBase64Encoded": False}
        )

    def _with_stage(self, event: dict[str, Any]) -> dict[str, Any]:
        if self.api.stage_variables:
            event["stageVariables"] = self.api.stage_variables
        return event

    def _context(self, caller: Caller, route_key: str, event_type: str) -> dict[str, Any]:
        now = time.time()
        request_id = new_request_id()
        context: dict[str, Any] = {
            "routeKey": route_key,
            "eventType": event_type,
            "extendedRequestId": request_id,
            "requestTime": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "messageDirection": "IN",
            "stage": self.api.stage,
            "connectedAt": caller.connected_at,
            "requestTimeEpoch": int(now * 1000),
            "identity": {"sourceIp": caller.source_ip},
            "requestId": request_id,
            "domainName": self.domain_name,
            "connectionId": caller.connection_id,
            "apiId": self.api.api_id,
        }
        if caller.user_agent:
            context["identity"]["userAgent"] = caller.user_agent
        if caller.authorizer is not None:
            context["authorizer"] = caller.authorizer
        return context


def _last(values: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: value_list[-1] for name, value_list in values.items()}
