"""The documents' code, run unchanged except for the changes listed here.

The Dart snippet of the WebSocket Protocol needs a Dart SDK and is not run. It connects to the same address, sends the
same frame and switches over the same three types as the JavaScript one: it needs nothing of the server that this one
does not need.

The documents' address `localhost:8000` is replaced by the system under test, whose port is free to choose.
"""

import json

from codelab_local import LocalCloud

from tests.fakes.ide.ide import Ide
from tests.seeds.conftest import NODE_PROJECT
from tests.seeds.snippets import OBSERVER, PRELUDE, Change, Start, changed

# ---------------------------------------------------------------- WebSocket Protocol, "JavaScript/TypeScript"

WEBSOCKET_PROTOCOL = """
const ws = new WebSocket('ws://localhost:8000/ws/session_123');

// Отправка сообщения
ws.send(JSON.stringify({
  type: 'user_message',
  content: 'Привет!',
  role: 'user'
}));

// Получение сообщений
ws.onmessage = (event) => {
  const message = JSON.parse(event.data);
  
  switch (message.type) {
    case 'assistant_message':
      console.log('Token:', message.token);
      break;
    case 'tool_call':
      handleToolCall(message);
      break;
    case 'error':
      console.error('Error:', message.content);
      break;
  }
};
"""  # noqa: W293

_SEND = "ws.send(JSON.stringify({\n  type: 'user_message'"
SEND_ON_OPEN = Change("a socket takes nothing before it is open", _SEND, f"ws.onopen = () => {_SEND}")

# The document calls this function but does not define it.
HANDLE_TOOL_CALL = """
function handleToolCall(call) {
  report('tool_call', call);
  ws.send(JSON.stringify({ type: 'tool_result', call_id: call.call_id, result: { content: 'void main() { ... }' } }));
}
"""


def other_session(name: str) -> Change:
    return Change("a session of its own", "session_123", name)


def other_content(content: str) -> Change:
    return Change("another message, so that another case of the switch is taken", "'Привет!'", repr(content))


def websocket_protocol(*changes: Change) -> str:
    return PRELUDE + changed(WEBSOCKET_PROTOCOL, SEND_ON_OPEN, *changes) + HANDLE_TOOL_CALL + OBSERVER


def test_the_websocket_snippet_prints_the_tokens_of_the_answer(start: Start) -> None:
    snippet = start(websocket_protocol()).finish()
    printed = snippet.said("log")
    assert {label for label, _ in printed} == {"Token:"}
    assert "Привет" in "".join(token for _, token in printed)
    assert len(printed) > 1, "the answer came in one piece"
    assert snippet.said("error") == []


def test_the_websocket_snippet_handles_a_tool_call(start: Start) -> None:
    snippet = start(websocket_protocol(other_session("session_124"), other_content("Прочитай файл main.dart"))).finish()
    (call,) = snippet.said("tool_call")
    assert (call["tool_name"], call["arguments"]) == ("read_file", {"path": "main.dart"})
    assert "main.dart" in "".join(token for _, token in snippet.said("log"))
    assert snippet.said("error") == []


def test_the_websocket_snippet_prints_an_error(start: Start) -> None:
    snippet = start(websocket_protocol(other_session("session_125"), other_content("")))
    label, text = snippet.wait_for("error")
    assert label == "Error:"
    assert "content" in text


# ---------------------------------------------------------------- Agent Protocol, "Примеры использования"

EXAMPLE_1 = """
// IDE отправляет сообщение
ws.send(JSON.stringify({
  type: 'user_message',
  content: 'Проанализируй main.dart'
}));

// Agent запрашивает чтение файла
ws.onmessage = (event) => {
  const msg = JSON.parse(event.data);
  
  if (msg.type === 'tool_call' && msg.tool_name === 'read_file') {
    // Читаем файл
    const content = await readFile(msg.arguments.path);
    
    // Отправляем результат
    ws.send(JSON.stringify({
      type: 'tool_result',
      call_id: msg.call_id,
      result: { content }
    }));
  }
};
"""  # noqa: W293

EXAMPLE_2 = """
ws.onmessage = async (event) => {
  const msg = JSON.parse(event.data);
  
  if (msg.type === 'tool_call' && msg.requires_approval) {
    // Показываем диалог пользователю
    const decision = await showApprovalDialog(msg);
    
    if (decision === 'approve') {
      ws.send(JSON.stringify({
        type: 'hitl_decision',
        call_id: msg.call_id,
        decision: 'approve'
      }));
    } else if (decision === 'reject') {
      ws.send(JSON.stringify({
        type: 'hitl_decision',
        call_id: msg.call_id,
        decision: 'reject',
        feedback: 'User rejected the operation'
      }));
    }
  }
};
"""  # noqa: W293

EXAMPLE_1_IS_ASYNC = Change(
    "`await` parses in an async function only", "ws.onmessage = (event) =>", "ws.onmessage = async (event) =>"
)


def named(name: str) -> Change:
    """With two handlers, the second assignment would replace the first."""
    return Change("one shared handler", "ws.onmessage = async (event) =>", f"const {name} = async (event) =>")


SHARED_HANDLER = """
ws.onmessage = (event) => {
  example1(event);
  example2(event);
  const msg = JSON.parse(event.data);
  if (msg.type === 'tool_call' && !msg.requires_approval && msg.tool_name !== 'read_file') handleToolCall(msg);
};
"""

CREATE_INSTEAD = Change("a message that asks for a change", "'Проанализируй main.dart'", "'Создай файл test.py'")


def around(session: str, decision: str = "approve") -> str:
    """Defines what the documents only use: the socket, the disk, the dialog and the tools of an IDE."""
    return (
        PRELUDE
        + f"""
const ws = new WebSocket('ws://localhost:8000/ws/{session}');
const readFile = async (path) => {{ report('read', path); return 'void main() {{}}'; }};
const showApprovalDialog = async (msg) => {{ report('asked', msg); return '{decision}'; }};
const handleToolCall = (msg) => {{
  report('executed', msg);
  ws.send(JSON.stringify({{ type: 'tool_result', call_id: msg.call_id, result: {{ success: true }} }}));
}};
"""
    )


def both_examples(session: str, decision: str) -> str:
    first = changed(EXAMPLE_1, SEND_ON_OPEN, EXAMPLE_1_IS_ASYNC, named("example1"), CREATE_INSTEAD)
    return around(session, decision) + first + changed(EXAMPLE_2, named("example2")) + SHARED_HANDLER + OBSERVER


def test_example_1_reads_a_file_and_gets_its_analysis(start: Start) -> None:
    example = changed(EXAMPLE_1, SEND_ON_OPEN, EXAMPLE_1_IS_ASYNC)
    snippet = start(around("example_1") + example + OBSERVER).finish()
    assert snippet.said("read") == ["main.dart"]
    assert "main.dart" in snippet.text()
    assert snippet.frames("error") == []


def test_examples_1_and_2_together_approve_a_change_and_make_it(start: Start) -> None:
    snippet = start(both_examples("examples_approve", "approve")).finish()
    (asked,), (executed,) = snippet.said("asked"), snippet.said("executed")
    assert (asked["tool_name"], asked["arguments"]["path"]) == ("write_file", "test.py")
    assert (executed["call_id"], executed["arguments"]) == (asked["call_id"], asked["arguments"])
    assert "test.py создан" in snippet.text()
    assert snippet.frames("error") == []


def test_examples_1_and_2_together_reject_a_change_and_nothing_is_executed(start: Start) -> None:
    snippet = start(both_examples("examples_reject", "reject")).finish()
    assert len(snippet.said("asked")) == 1
    assert snippet.said("executed") == []
    assert "не буду создавать" in snippet.text()
    assert snippet.frames("error") == []


def test_example_2_decides_for_a_connection_that_only_executes(start: Start, demo_cloud: LocalCloud) -> None:
    decider = start(around("example_2") + EXAMPLE_2 + OBSERVER)
    decider.wait_for("open")
    with Ide(demo_cloud.url("example_2")) as executor:
        executor.say("Создай файл test.py")
        executor.result(executor.expect("tool_call", requires_approval=False), {"success": True})
        executor.idle()
        assert "test.py создан" in executor.text()
    decider.finish()
    assert len(decider.said("asked")) == 1
    assert decider.text() == executor.text()


def test_the_locked_packages_come_from_the_public_registry() -> None:
    locked = json.loads((NODE_PROJECT / "package-lock.json").read_text())["packages"]
    sources = [package.get("resolved", "https://registry.npmjs.org/") for package in locked.values()]
    assert all(source.startswith("https://registry.npmjs.org/") for source in sources)
    assert all("integrity" in package for name, package in locked.items() if name)
