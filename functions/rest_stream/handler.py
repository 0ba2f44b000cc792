"""The event stream of the Agent Runtime API where a body can be streamed: uvicorn behind the Lambda Web Adapter."""

from codelab.gateway.services import engine
from codelab.rest.stream_app import create_stream_app

engine()  # at init, so that clients are warm before the first request
app = create_stream_app()
