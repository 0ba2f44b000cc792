"""docs/one-request.md: a whole request of a turn's second step, made as the server makes it."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from codelab.config import read_settings
from codelab.engine.next_request import look
from codelab.engine.step_requests import MAX_CALLS, StepRequests
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.protocol.incoming import Environment
from codelab.protocol.tools import CATALOGUE, ExecutorTools
from codelab.sessions.items import CallRequest, MessageItem, dumps
from codelab.sessions.register import Phase, Register
from codelab.sessions.store import Conversation
from codelab.turns.result_texts import text_of

_URL = "http://127.0.0.1:8080/v1"
_AT = 1_796_032_800_000  # 2026-11-30
_ENVIRONMENT = Environment(
    os="Linux 6.1",
    shell="sh",
    workspace="shop",
    sandbox="commands write only in the workspace, and cannot see the home folder, without network",
    tree="cart.py\ntest_cart.py",
)
_NOW = """\
date: Monday, 2026-11-30 10:00 (UTC+0100)
git: branch main; modified cart.py
approvals: changes and commands wait for the user's approval, unless a rule allows them"""
_FILES = {
    "files": [{"name": name, "type": "file", "size": size} for name, size in (("cart.py", 61), ("test_cart.py", 88))]
}
_CART = {"content": "def total(prices):\n    return sum(prices) - min(prices)\n", "total_lines": 2}

_HEAD = """\
# One request, whole

*Reference*

What the second step of a turn sends to a server of open weights (the profile `llama.cpp`, which uses the schema only as
a grammar), as `make docs` makes it with the server's own code. The agent is `universal`, for the tools that `codelab`
executes. `codelab prompt` prints the same of your own conversation; [request.md](request.md#what-the-model-reads) says
why it has this form.

About {total:,} tokens: {parts}.
"""


def page() -> str:
    """The page."""
    settings = read_settings(
        {"LLM_MODEL": "llama-3.2", "LLM_PROVIDER": "llama.cpp", "LLM_BASE_URL": _URL, "DEFAULT_AGENT": "universal"}
    )
    register = Register("ann", "s1", _AT, "universal", title="The cart's total", phase=Phase.RUNNING, step=2)
    read = Conversation(
        _history(), turn_n=1, environment=_ENVIRONMENT.text, instructions={"AGENTS.md": "Run `pytest` after a change."}
    )
    executor = ExecutorTools(supported=frozenset(tool.name for tool in CATALOGUE.values() if not tool.server_side))
    unsupported = UnsupportedFeatures()
    with ThreadPoolExecutor(1) as pool:
        prepared_request = StepRequests(settings, unsupported, pool, _URL).prepare(register, read, executor, MAX_CALLS)
        found = look(prepared_request, unsupported, _URL)
    tokens: Mapping[str, int] = found["tokens"]
    parts = ", ".join(f"{name} {count:,}" for name, count in tokens.items() if count)
    lines = [_HEAD.format(total=sum(tokens.values()), parts=parts)]
    for message in found["request"]["messages"]:
        rest = {name: value for name, value in message.items() if name not in ("role", "content")}
        lines += [f"## {message['role']}", "", _fenced(message["content"], "text"), ""]
        lines += [_fenced(_json(rest), "json"), ""] if rest else []
    others = {name: value for name, value in found["request"].items() if name != "messages"}
    return "\n".join([*lines, "## Beside the messages", "", _fenced(_json(others), "json"), ""])


def _history() -> list[MessageItem]:
    calls = ("list_files", {"path": "."}, _FILES), ("read_file", {"path": "cart.py"}, _CART)
    said = [MessageItem(1, "user", "The total of the cart is wrong. Find out why.", _AT, "t1", environment=_NOW)]
    made = tuple(CallRequest(f"call_{n}", tool, arguments) for n, (tool, arguments, _) in enumerate(calls, 1))
    said.append(MessageItem(2, "assistant", "I look at the cart.", _AT, "t1", made))
    for n, (tool, _, result) in enumerate(calls, 1):
        said.append(MessageItem(2 + n, "tool", text_of(tool, result) or dumps(result), _AT, "t1", call_id=f"call_{n}"))
    return said


def _fenced(text: str, language: str) -> str:
    fence = "`" * 6
    return f"{fence}{language}\n{text}\n{fence}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
