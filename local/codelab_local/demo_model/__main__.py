"""`python -m codelab_local.demo_model --port N [--host 127.0.0.1]`."""

import argparse
import asyncio
import contextlib
import os
import sys

from codelab_local.demo_model.server import Delays, bind, serve
from codelab_local.host.processes import inherited_socket


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1
    if not 0 <= value <= 3_600_000:
        sys.exit(f"{name}={text!r} is not a number of milliseconds: set it to 0 or more, for example {name}=10.")
    return value / 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m codelab_local.demo_model",
        description="The built-in demonstration model: an OpenAI-compatible server, a coding conversation offline.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port, printed once it serves")
    parser.add_argument("--fd", type=int, help="listen on this inherited socket, instead of --host and --port")
    arguments = parser.parse_args()
    delays = Delays(_seconds("DEMO_FIRST_TOKEN_DELAY_MS", 0), _seconds("DEMO_TOKEN_DELAY_MS", 10))
    try:
        bound = bind(arguments.host, arguments.port) if arguments.fd is None else inherited_socket(arguments.fd)
    except (OSError, OverflowError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        sys.exit(f"Cannot listen on {arguments.host}:{arguments.port} ({reason}): use another --port.")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(bound, delays))


main()
