"""Serves one editor on stdio until it leaves."""

import asyncio
import contextlib
import logging
import signal

from codelab_client.acp.agent import Agent, Server
from codelab_client.acp.jsonrpc import INVALID_REQUEST
from codelab_client.acp.stdio import MOST_LINE_BYTES, Stdio


async def serve(server: Server) -> int:
    """Answer the editor until stdin ends or a signal asks to stop. Returns the exit code."""
    stdio = Stdio()
    logging.basicConfig(level=logging.WARNING)  # to stderr
    agent = Agent(server, stdio)
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, NotImplementedError):
            loop.add_signal_handler(getattr(signal, name), stdio.end.set)
    too_long = f"A message has more than {MOST_LINE_BYTES:,} bytes"
    stdio.start(agent.peer.receive, lambda: agent.peer.refuse(INVALID_REQUEST, too_long))
    try:
        await stdio.end.wait()
    finally:
        await agent.aclose()
        stdio.flush()
    return 0
