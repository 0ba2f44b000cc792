"""`/client-config`: what a client needs before it can sign in. Public, so it says only what every client may know."""

import re
from typing import Literal
from urllib.parse import urlsplit

from fastapi import APIRouter
from pydantic import BaseModel, Field

from codelab.config import Settings, settings
from codelab.protocol import PROTOCOL_VERSION
from codelab.rest.bodies import with_example
from codelab.rest.routes import DirectRoute

_ADDRESS = re.compile(r"[0-9.:]+|\[.*")

router = APIRouter(tags=["health"], route_class=DirectRoute)


class Auth(BaseModel):
    """How to get a token. Without an issuer, the operator hands tokens out."""

    mode: Literal["none", "jwt"] = Field(description="`none`: no token is needed; `jwt`: send one")
    issuer: str | None = Field(default=None, description="The OpenID provider whose tokens are accepted")
    client_id: str | None = Field(default=None, description="The client id to sign in with at that provider")
    audience: str | None = Field(default=None, description="The audience to ask for")


class ClientConfig(BaseModel):
    """Where the WebSocket is, how to sign in, and which protocol the server speaks."""

    model_config = with_example(
        websocket="wss://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com/v1?session_id={session_id}",
        auth={"mode": "jwt", "issuer": "https://login.example.com", "client_id": "codelab-cli"},
        protocol_version=PROTOCOL_VERSION,
        payload_hosts=["codelab-payloads.s3.eu-central-1.amazonaws.com"],
    )

    websocket: str = Field(
        description="The address, with the session's id, encoded for a URL, in place of {session_id}. Without a host, "
        "it is on the host and port of this request"
    )
    auth: Auth
    protocol_version: str
    payload_hosts: list[str] = Field(
        default=[],
        description="The hosts, each with its port unless it is the scheme's own, to which `payload_url` and "
        "`upload_ticket` may lead, besides those of this API and the WebSocket. A client refuses others",
    )


@router.get("/client-config", response_model_exclude_none=True)
def get_client_config() -> ClientConfig:
    """What a client needs before it can sign in. No token is needed."""
    config = settings()
    return ClientConfig(
        websocket=_address(config),
        auth=_auth(config),
        protocol_version=PROTOCOL_VERSION,
        payload_hosts=_payload_hosts(config),
    )


def _address(config: Settings) -> str:
    if config.codelab_local:
        return "/ws/{session_id}"
    return config.websocket_address


def _payload_hosts(config: Settings) -> list[str]:
    """The bucket's host. An endpoint that replaces AWS's has the bucket before its name, unless it is an IP address."""
    endpoint = config.aws_endpoint_url_s3 or config.aws_endpoint_url
    if not endpoint:
        return [urlsplit(config.payload_origin).netloc] if config.payload_origin else []
    host = urlsplit(endpoint).netloc
    return [host] if _ADDRESS.fullmatch(host) else [host, f"{config.payload_bucket}.{host}"]


def _auth(config: Settings) -> Auth:
    if config.auth_mode == "none":
        return Auth(mode="none")
    return Auth(
        mode="jwt",
        issuer=config.jwt_issuer or None,
        client_id=config.jwt_client_id or None,
        audience=config.jwt_audience or None,
    )
