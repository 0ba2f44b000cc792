"""The process that ministack runs in: `python -m codelab_local.emulator.process`, started by `emulator.py`.

It differs from `python -m ministack` in seven ways. It serves HTTP with uvicorn and httptools. Its DynamoDB is faster
(`speed.py`). It imports the SAM translator, if needed, while the server starts. It
exits with the local cloud, and saves its state. It then deletes the temporary folder. It only accepts requests signed
with this run's access key. If it keeps state, it also loses none when it is killed (`table_journal.py`).
"""

import contextlib
import gc
import hmac
import importlib
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType

from codelab_local.emulator.signatures import Credentials, Refused, check_header, key_id_of
from codelab_local.emulator.speed import Asgi, Message, Receive, Send, patched
from codelab_local.emulator.table_journal import SNAPSHOT_PATH, TableJournal
from codelab_local.host.processes import die_with_parent, inherited_socket

# Administration endpoints: reset, reconfigure.
_ADMINISTRATION = ("/_ministack", "/_localstack")


def main() -> int:
    """Run the server in a child process, and wait for it with signals blocked.

    When a parent with several threads dies, the kernel sends one signal per thread. The second one would interrupt the
    cleanup.
    """
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    me = os.getpid()
    server = os.fork()
    if server == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        die_with_parent(me)
        _serve()
        return 0
    if signal.sigwait(signals) == signal.SIGTERM:
        os.kill(server, signal.SIGTERM)
    _, status = os.waitpid(server, 0)
    # The parent does this too, unless it was killed.
    shutil.rmtree(os.environ["CODELAB_LOCAL_FOLDER"], ignore_errors=True)
    return os.waitstatus_to_exitcode(status)


def _serve() -> None:
    gc.disable()  # Until `_freeze`: what is imported stays.
    expands = os.environ.pop("CODELAB_LOCAL_EXPANDS") == "1"
    if expands:
        threading.Thread(target=_import_translator, daemon=True).start()
    # Remove the secret from the environment, so that nothing the emulator runs or shows can contain it.
    credentials = Credentials(os.environ.pop("CODELAB_LOCAL_KEY_ID"), os.environ.pop("CODELAB_LOCAL_SECRET"))
    import uvicorn
    from ministack import app as ministack  # type: ignore[import-untyped]
    from ministack.services import dynamodb  # type: ignore[import-untyped]

    application = ministack.app if os.environ.pop("CODELAB_LOCAL_PLAIN") == "1" else patched(ministack, dynamodb)
    if os.environ.get("PERSIST_STATE"):
        application = _keeping_state(application, ministack, dynamodb)
    if not expands:
        _freeze()
    # uvicorn instead of the server that ministack brings along, whose HTTP takes as long as everything else in a call.
    config = uvicorn.Config(
        SignedRequestsOnly(application, credentials),
        http="httptools",
        ws="none",
        lifespan="on",  # Its state is loaded and saved there.
        log_level=os.environ["LOG_LEVEL"].lower(),
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,  # A client that hangs must not keep it from saving.
    )
    uvicorn.Server(config).run([inherited_socket(int(os.environ.pop("CODELAB_LOCAL_SOCKET")))])


def _keeping_state(inner: Asgi, ministack: ModuleType, dynamodb: ModuleType) -> Asgi:
    """ASGI middleware that journals changes before they are answered."""
    from ministack.core.persistence import save_all  # type: ignore[import-untyped]

    folder = Path(os.environ["STATE_DIR"])
    # Conversations and keys: what it writes from now on is the user's alone, in whatever folder STATE_DIR is.
    os.umask(0o077)
    for private in (folder, Path(os.environ["S3_DATA_DIR"])):
        private.mkdir(mode=0o700, exist_ok=True)
        private.chmod(0o700)
    journal = TableJournal(dynamodb, folder / "journal.jsonl", folder / "dynamodb.json")

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        async def send_after_journal(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                journal.restore()
            elif message["type"] == "http.response.start":
                journal.flush()
            await send(message)

        if scope["type"] == "http" and scope["path"] == SNAPSHOT_PATH:
            journal.snapshot(lambda: save_all(ministack._build_persistence_save_dict()))
            await _answer(send, 204)
        else:
            await inner(scope, receive, send_after_journal)

    return application


class SignedRequestsOnly:
    """ASGI middleware that passes only requests signed with `credentials` to `application`."""

    def __init__(self, application: Asgi, credentials: Credentials) -> None:
        self._application = application
        self._credentials = credentials

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
        elif scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if "origin" in headers or scope["path"].startswith(_ADMINISTRATION):
            return await _refuse(send, "AccessDenied")
        if not hmac.compare_digest(key_id_of(headers).encode(), self._credentials.key_id.encode()):
            return await _refuse(send, "InvalidAccessKeyId")  # Before the body is read.
        body = await _whole(receive)
        if body is None:
            return None
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        try:
            check_header(self._credentials, scope["method"], path, query, headers, body)
        except Refused as refusal:
            return await _refuse(send, refusal.code)
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_again() -> Message:
            return next(parts, None) or await receive()

        return await self._application(scope, receive_again, send)


async def _whole(receive: Receive) -> bytes | None:
    """A request's body; None if the client disconnected."""
    body = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(body)


async def _refuse(send: Send, code: str) -> None:
    body = json.dumps(
        {"__type": code, "message": "The emulator accepts only requests of the local cloud's functions"}
    ).encode()
    await _answer(send, 403, body)


async def _answer(send: Send, status: int, body: bytes = b"") -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _import_translator() -> None:
    # The deployment reports a missing translator.
    with contextlib.suppress(ImportError):
        importlib.import_module("samtranslator.translator.transform")
    _freeze()


def _freeze() -> None:
    gc.enable()
    gc.freeze()  # Going through all that was imported takes a garbage collection 0.1 s, in which nothing is answered.


if __name__ == "__main__":
    sys.exit(main())
