"""The application: what is served where."""

from fastapi import FastAPI

from codelab.rest.imports import without_pydantic_1

with without_pydantic_1():
    from codelab.rest import approvals, calls, chat, context, errors, health, requests, sessions, stream, tools

_DESCRIPTION = (
    """Sessions, messages, tools and context of an AI agent for IDEs, over the same engine as the WebSocket."""
)


def create_app() -> FastAPI:
    """The Agent Runtime API under `/api/v1`, with `/health`, `/docs` and `/openapi.json` beside it."""
    app = FastAPI(
        title="CodeLab Agent Runtime API",
        version=health.VERSION,
        description=_DESCRIPTION,
        redoc_url=None,
        redirect_slashes=False,  # behind API Gateway it would lead to another scheme and host
        separate_input_output_schemas=False,
    )
    errors.install(app)
    errors.document(app)
    app.include_router(health.router)
    for group in (sessions, approvals, chat, stream, context, tools, calls, requests):
        app.include_router(group.router, prefix="/api/v1")
    return app
