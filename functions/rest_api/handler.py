"""The Agent Runtime API: FastAPI behind an HTTP API, over the same engine as the WebSocket."""

from codelab.rest.app import create_app
from mangum import Mangum

handler = Mangum(create_app(), lifespan="off")
