"""The Agent Runtime API: FastAPI behind an HTTP API, over the same engine as the WebSocket."""

from codelab.rest.app import create_app
from codelab.wiring import engine
from mangum import Mangum

engine()  # at init, so that clients are warm before the first request
handler = Mangum(create_app(), lifespan="off")
