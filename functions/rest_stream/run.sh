#!/bin/bash
# What the Lambda Web Adapter starts, and passes requests to; the local cloud does the same, over a socket of its own. The
# adapter keeps its connection from one event to the next: uvicorn must not close it first, as it would after 5 s, most of
# them frozen.
export PYTHONPATH="$LAMBDA_TASK_ROOT:/opt/python${PYTHONPATH:+:$PYTHONPATH}"
exec python -m uvicorn handler:app --host 127.0.0.1 --port "${AWS_LWA_PORT:-8080}" ${LOCAL_SOCKET:+--uds "$LOCAL_SOCKET"} \
  --log-level warning --timeout-graceful-shutdown 1 --timeout-keep-alive 86400
