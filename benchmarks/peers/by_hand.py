"""The hand-written peer: chat sessions over WebSocket, by FastAPI, uvicorn, SQLite and the openai SDK.

The user's message is committed before the model is asked, each piece of the answer is sent as it comes, and the whole
answer is committed at its end. A turn belongs to its connection and to this process: if one of them ends, the turn is
lost. Run as `python -m benchmarks.peers.by_hand PORT MODEL_URL DATABASE [MESSAGES]`.
"""

import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

#: From the session's messages to the pieces of the answer.
Ask = Callable[[list[dict[str, str]]], AsyncIterator[str]]

#: In WAL mode a commit is one write, without fsync: it survives the death of the process.
_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, session TEXT, role TEXT, content TEXT);
CREATE INDEX IF NOT EXISTS by_session ON messages (session, id);
"""


def application(ask: Ask, database: str, limit: int = -1) -> FastAPI:
    """The server. A request of the model has the newest `limit` messages; -1: all."""
    app = FastAPI()
    db = sqlite3.connect(database, isolation_level=None)
    db.executescript(_SCHEMA)

    def add(session: str, role: str, content: str) -> None:
        db.execute("INSERT INTO messages (session, role, content) VALUES (?, ?, ?)", (session, role, content))

    def history(session: str) -> list[dict[str, str]]:
        newest = "SELECT role, content FROM messages WHERE session = ? ORDER BY id DESC LIMIT ?"
        rows = db.execute(newest, (session, limit)).fetchall()
        return [{"role": role, "content": content} for role, content in reversed(rows)]

    @app.websocket("/ws/{session}")
    async def chat(socket: WebSocket, session: str) -> None:
        await socket.accept()
        try:
            while True:
                add(session, "user", (await socket.receive_json())["content"])
                answer = []
                try:
                    async for piece in ask(history(session)):
                        answer.append(piece)
                        await socket.send_json({"type": "assistant_message", "token": piece, "is_final": False})
                except WebSocketDisconnect:
                    raise
                except Exception as error:
                    await socket.send_json({"type": "error", "message": str(error)})
                else:
                    add(session, "assistant", "".join(answer))
                await socket.send_json({"type": "agent_status", "status": "idle"})
        except WebSocketDisconnect:
            pass

    return app


def openai_sdk(model_url: str) -> Ask:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=model_url, api_key="bench")

    async def ask(messages: list[Any]) -> AsyncIterator[str]:
        async for chunk in await client.chat.completions.create(model="instant", messages=messages, stream=True):
            if chunk.choices and (piece := chunk.choices[0].delta.content):
                yield piece

    return ask


def main(make: Callable[[str], Ask]) -> None:
    """Serve on the command line's port, with the client that `make` gives for its model's URL."""
    port, model_url, database, *limit = sys.argv[1:]
    app = application(make(model_url), database, *map(int, limit))
    # loop: uvloop, if it is installed. Sans-I/O is the faster of uvicorn's two protocols on the websockets library.
    uvicorn.run(
        app, port=int(port), loop="auto", ws="websockets-sansio", ws_per_message_deflate=False, log_level="warning"
    )


if __name__ == "__main__":
    main(openai_sdk)
