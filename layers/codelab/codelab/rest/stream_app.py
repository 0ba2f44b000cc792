"""The application of a streaming host: only the stream. It verifies tokens itself, because it has no authorizer."""

from fastapi import FastAPI, Request

from codelab.gateway.identity import Identity
from codelab.gateway.tokens import InvalidToken, bearer_of
from codelab.observability import logger
from codelab.rest import errors, health, identity, stream


def create_stream_app() -> FastAPI:
    """Make the application: `/api/v1/chat/stream/{session_id}` and nothing else."""
    bearer = bearer_of()

    def subject(request: Request) -> Identity:
        """The subject of the token, found and verified as the authorizer does."""
        event = {"headers": dict(request.headers), "queryStringParameters": dict(request.query_params)}
        try:
            return bearer(event)
        except InvalidToken as error:
            logger().info("stream refused", extra={"reason": str(error)})
            raise identity.unauthorized() from None

    app = FastAPI(
        title="CodeLab event stream",
        version=health.VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.dependency_overrides[identity.subject] = subject
    errors.install(app)
    app.include_router(stream.router, prefix="/api/v1")
    return app
