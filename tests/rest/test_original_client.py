"""The client of the original's benchmarks: REST for the session, the WebSocket for the conversation."""

import json
from pathlib import Path

import httpx
from codelab_local import LocalCloud
from websockets.sync.client import connect

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel


def test_the_original_benchmark_client_works(
    cloud: LocalCloud, api: httpx.Client, model: ScriptedModel, tmp_path: Path
) -> None:
    """Create a session over REST, open the WebSocket, answer the calls, read the history. No extensions, no hello."""
    marker = model.script(
        "original",
        Says("I create the file. ", [call("write_file", path="lib/main.dart", content="void main() {}")]),
        Says("I read it again. ", [call("read_file", path="lib/main.dart")]),
        Says("It is there."),
    )
    metadata = {"project_path": str(tmp_path)}
    created = api.post("/sessions", json={"user_id": "benchmark", "metadata": metadata}).json()
    session_id = created["session_id"]
    said = ""
    with connect(f"{cloud.http.replace('http', 'ws')}/api/v1/ws/{session_id}", open_timeout=60) as socket:
        socket.send(json.dumps({"type": "user_message", "content": f"Create main.dart {marker}", "role": "user"}))
        while True:
            message = json.loads(socket.recv(timeout=30))
            if message["type"] == "assistant_message":
                said += message["token"]
            elif message["type"] == "tool_call":
                path = tmp_path / message["arguments"]["path"]
                if message["tool_name"] == "write_file":
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(message["arguments"]["content"])
                    result = {"success": True}
                else:
                    result = {"content": path.read_text()}
                # It also executes calls that need approval: its result counts as the approval.
                socket.send(json.dumps({"type": "tool_result", "call_id": message["call_id"], "result": result}))
            elif message["type"] == "agent_status" and message["status"] == "idle":
                break
    assert said == "I create the file. I read it again. It is there."
    assert (tmp_path / "lib/main.dart").read_text() == "void main() {}"
    history = api.get(f"/chat/history/{session_id}", params={"limit": 50}).json()
    assert history["total"] == len(history["messages"]) == 6
    spoken = [message["content"] for message in history["messages"] if message["role"] == "assistant"]
    assert "".join(spoken) == said
    assert api.get(f"/sessions/{session_id}").json()["metadata"] == metadata
    assert api.delete(f"/sessions/{session_id}").json()["status"] == "deleted"
