"""The event stream of the Agent Runtime API where a body can be streamed: uvicorn behind the Lambda Web Adapter."""

from codelab.process_start import begin_init, end_init

begin_init()

from codelab.rest.stream_app import create_stream_app
from codelab.wiring import engine

engine()  # at init, so that clients are warm before the first request
app = create_stream_app()
end_init()  # uvicorn handles the events
