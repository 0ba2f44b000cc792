"""A web function's process, which may end at any time."""

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from codelab_local.functions.log import FunctionLog
from codelab_local.functions.web_functions import WebFunction
from codelab_local.http.protocol import Request, Stream

#: Answers with its process id. It refuses connections from then on, and ends a while later.
SCRIPT = """#!{python}
import os, socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["LOCAL_SOCKET"])
listener.listen()
while True:
    connection, _ = listener.accept()
    if connection.recv(1000):
        listener.close()
        connection.sendall(b"%d" % os.getpid())
        connection.close()
        time.sleep(0.3)
        break
"""


def test_a_request_that_a_dying_process_refuses_is_answered_by_the_next(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    function: Any = SimpleNamespace(folder=tmp_path, handler=script.name)

    async def ask_twice() -> list[bytes]:
        log = FunctionLog("web")
        web = WebFunction(function, os.environ, log, tmp_path / "socket")
        try:
            answers = [await web.handle(Request("GET", "/", "", {}, b"")) for _ in range(2)]
            assert all(isinstance(answer, Stream) for answer in answers), answers
            return [b"".join([piece async for piece in answer.chunks]) for answer in answers]
        finally:
            web.close()
            log.close()

    first, second = asyncio.run(ask_twice())
    assert first.isdigit()
    assert second.isdigit()
    assert first != second
