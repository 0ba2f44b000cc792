"""`/client-config`: what a client needs before it can sign in. Public, so it says only what every client may know."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from codelab.config import Settings, settings
from codelab.protocol import PROTOCOL_VERSION
from codelab.rest.bodies import with_example
from codelab.rest.routes import DirectRoute

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
    )

    websocket: str = Field(
        description="The address, with the session's id, encoded for a URL, in place of {session_id}. Without a host, "
        "it is on the host and port of this request"
    )
    auth: Auth
    protocol_version: str


@router.get("/client-config", response_model_exclude_none=True)
def get_client_config() -> ClientConfig:
    """What a client needs before it can sign in. No token is needed."""
    configured = settings()
    return ClientConfig(websocket=_address(configured), auth=_auth(configured), protocol_version=PROTOCOL_VERSION)


def _address(configured: Settings) -> str:
    if configured.codelab_local:
        return "/ws/{session_id}"
    return f"wss{configured.connections_url.removeprefix('https')}?session_id={{session_id}}"


def _auth(configured: Settings) -> Auth:
    if configured.auth_mode == "none":
        return Auth(mode="none")
    return Auth(
        mode="jwt",
        issuer=configured.jwt_issuer or None,
        client_id=configured.jwt_client_id or None,
        audience=configured.jwt_audience or None,
    )
