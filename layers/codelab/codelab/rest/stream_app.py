"""The application of a host that streams: the stream alone, and who is asking, for no authorizer stands before it."""

from fastapi import FastAPI, Request

from codelab.config import settings
from codelab.gateway.identity import token_of
from codelab.gateway.tokens import Identity, InvalidToken, token_verifier
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.rest import errors, health, identity, stream


def create_stream_app() -> FastAPI:
    """`/api/v1/chat/stream/{session_id}` and nothing else."""
    verifier = token_verifier() if settings().auth_mode == "jwt" else None

    def user(request: Request) -> str:
        """The subject of the token, found and verified as the authorizer does."""
        event = {"headers": dict(request.headers), "queryStringParameters": dict(request.query_params)}
        try:
            known = verifier.verify(token_of(event)) if verifier else Identity("local", 0)
        except InvalidToken:
            raise ProtocolError(ErrorCode.UNAUTHORIZED, "A valid token is needed: Authorization: Bearer …") from None
        request.state.token_expires = known.expires
        return known.user

    app = FastAPI(title="CodeLab event stream", version=health.VERSION, docs_url=None, redoc_url=None, openapi_url=None)
    app.dependency_overrides[identity.user] = user
    errors.install(app)
    app.include_router(stream.router, prefix="/api/v1")
    return app
