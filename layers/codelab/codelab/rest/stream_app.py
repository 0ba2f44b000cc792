"""The application of a streaming host: only the stream."""

from fastapi import FastAPI, Request

from codelab.gateway.identity import Identity
from codelab.rest import error_responses, health, identity, stream


def create_stream_app() -> FastAPI:
    """Make the application: `/api/v1/chat/stream/{session_id}` and nothing else."""

    def subject(request: Request) -> Identity:
        """As `identity.subject`, in a thread: one process serves many streams, and the check may ask AWS."""
        return identity.identify(request)

    app = FastAPI(
        title="CodeLab event stream",
        version=health.VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    identity.verify_tokens(app)
    app.dependency_overrides[identity.subject] = subject
    error_responses.install(app)
    app.include_router(stream.router, prefix="/api/v1")
    return app
