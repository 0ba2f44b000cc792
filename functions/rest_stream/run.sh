#!/bin/bash
# What the Lambda Web Adapter starts, and passes requests to; the local cloud does the same.
export PYTHONPATH="$LAMBDA_TASK_ROOT:/opt/python${PYTHONPATH:+:$PYTHONPATH}"
exec python -m uvicorn handler:app --host 127.0.0.1 --port "${AWS_LWA_PORT:-8080}" --log-level warning --timeout-graceful-shutdown 1
