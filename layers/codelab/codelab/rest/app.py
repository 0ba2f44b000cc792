"""The application and its routes."""

from operator import attrgetter

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codelab.rest import (
    approvals,
    calls,
    chat,
    client_config,
    context,
    docs_page,
    error_responses,
    health,
    prompt,
    push,
    requests,
    sessions,
    stream,
    tools,
    usage,
)

_DESCRIPTION = (
    """Sessions, messages, tools and context of an AI agent for IDEs, over the same engine as the WebSocket."""
)


class _Preflights:
    """Answers OPTIONS. A deployed HTTP API passes preflights on, and adds its CORS headers to the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_preflight = scope["type"] == "http" and scope["method"] == "OPTIONS"
        await (Response(status_code=204) if is_preflight else self._app)(scope, receive, send)


def create_app() -> FastAPI:
    """Make the application: the Agent Runtime API under `/api/v1`, and `/health`, `/docs` and `/openapi.json`."""
    app = FastAPI(
        title="CodeLab Agent Runtime API",
        version=health.VERSION,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # behind API Gateway it would lead to another scheme and host
        separate_input_output_schemas=False,
        generate_unique_id_function=attrgetter("name"),  # names the functions of generated clients
    )
    app.add_middleware(_Preflights)
    error_responses.install(app)
    error_responses.document(app)
    app.include_router(health.router)
    app.include_router(client_config.router)
    app.include_router(docs_page.router)
    for group in (sessions, approvals, chat, stream, context, tools, calls, requests, usage, prompt, push):
        app.include_router(group.router, prefix="/api/v1")
    return app
