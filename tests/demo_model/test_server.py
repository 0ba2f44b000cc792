"""The HTTP side: OpenAI's shapes, its own SDK, many streams, and the life of the process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema_rs
import psutil
import pytest
from codelab_local.demo_model.completions import pieces

from tests.cases import cases
from tests.demo_model.driver import closed, demo_model, process, turn_schema
from tests.processes import run
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from openai import OpenAI

_HELLO = [{"role": "user", "content": "Hello!"}]
_TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]


def sdk(base_url: str) -> "OpenAI":
    from openai import OpenAI  # every process imports this file, and this package takes half a second

    return OpenAI(base_url=base_url, api_key="none")


def _post(base_url: str, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body)
    return httpx.post(base_url + "/chat/completions", content=content, timeout=PATIENCE)


@cases(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b"\xff\xfe", None),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "messages[0].role"),
        ({"messages": _HELLO, "n": 0}, "n"),
        ({"messages": _HELLO, "n": "2"}, "n"),
        ({"messages": _HELLO, "stream": "yes"}, "stream"),
        ({"messages": _HELLO, "max_tokens": -1}, "max_tokens"),
        ({"messages": _HELLO, "response_format": {"type": "xml"}}, "response_format.type"),
        (
            {"messages": _HELLO, "response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
        ({"messages": _HELLO, "tools": [{}]}, "tools[0].function"),
        ({"messages": _HELLO, "tools": _TOOLS, "tool_choice": {"function": {"name": "other"}}}, "tool_choice"),
    ],
)
def test_refuses_a_bad_request_as_openai_does(base_url: str, body: Any, param: str | None) -> None:
    response = _post(base_url, body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"]
    assert "code" in error


def test_unknown_addresses(base_url: str) -> None:
    response = httpx.post(base_url + "/embeddings", json={}, timeout=PATIENCE)
    assert response.status_code == 404
    assert "Invalid URL" in response.json()["error"]["message"]
    assert httpx.get(base_url + "/chat/completions", timeout=PATIENCE).status_code == 404


def test_lists_its_model(base_url: str) -> None:
    client = sdk(base_url)
    assert [model.id for model in client.models.list()] == ["demonstration"]


def test_openai_sdk_whole_answer(base_url: str) -> None:
    client = sdk(base_url)
    done = client.chat.completions.create(model="demonstration", messages=_HELLO, n=2)
    assert [choice.finish_reason for choice in done.choices] == ["stop", "stop"]
    assert (done.choices[0].message.content or "").startswith("Hello! How can I help you?")
    assert done.system_fingerprint == "fp_demonstration"
    assert done.usage is not None
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens


def test_openai_sdk_streams_the_turn(base_url: str) -> None:
    client = sdk(base_url)
    stream = client.chat.completions.create(
        model="demonstration",
        messages=[{"role": "user", "content": "Прочитай файл lib/app.dart"}],
        response_format={"type": "json_schema", "json_schema": {"name": "t", "schema": turn_schema(), "strict": True}},
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    written = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    answer = json.loads("".join(written))
    assert answer["calls"] == [{"_tool": "read_file", "path": "lib/app.dart"}]
    assert sum(bool(piece) for piece in written) > 10
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    assert chunks[-1].choices == []
    assert usage.completion_tokens == sum(bool(piece) for piece in written)


def test_openai_sdk_calls_functions(base_url: str) -> None:
    client = sdk(base_url)
    units = {"enum": ["celsius", "fahrenheit"]}
    parameters = closed({"city": {"type": "string"}, "unit": units, "day": {"type": "null"}})
    weather: Any = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    read: Any = {"type": "function", "function": {"name": "read_file", "parameters": path}}
    question: Any = {"role": "user", "content": "What is the weather in Paris, in fahrenheit?"}

    def ask(message: Any, **options: Any) -> Any:
        answer = client.chat.completions.create(model="x", messages=[message], tools=[weather, read], **options)
        return answer.choices[0]

    assert ask(question).message.content
    assert ask(question, tool_choice="none").message.content
    forced = ask(question, tool_choice="required")
    assert forced.finish_reason == "tool_calls"
    arguments = json.loads(forced.message.tool_calls[0].function.arguments)
    jsonschema_rs.validator_for(parameters).validate(arguments)
    assert arguments["unit"] == "fahrenheit"
    (call,) = ask({"role": "user", "content": "read a.py"}).message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("read_file", {"path": "a.py"})


def test_json_mode_without_a_schema_is_an_object(base_url: str) -> None:
    answer = _post(base_url, {"messages": _HELLO, "response_format": {"type": "json_object"}}).json()
    assert isinstance(json.loads(answer["choices"][0]["message"]["content"]), dict)


def test_stops_at_the_limit(base_url: str) -> None:
    done = _post(base_url, {"messages": _HELLO, "max_completion_tokens": 3}).json()
    (choice,) = done["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "Hello! How")
    assert done["usage"]["completion_tokens"] == 3


@cases("text", ["", "a b  c\n", 'Привет, мир! 😀 {"a":"\\n"}', "x" * 300_000, "слово " * 60_000, "_" * 50])
def test_pieces_lose_nothing(text: str) -> None:
    cut = pieces(text)
    assert "".join(cut) == text
    assert len(cut) < 60_002


def test_a_stream_has_the_rhythm_it_is_given() -> None:
    with process(DEMO_TOKEN_DELAY_MS="20", DEMO_FIRST_TOKEN_DELAY_MS="100") as (_, url):
        client = httpx.Client(timeout=PATIENCE)
        began = time.monotonic()
        with client.stream("POST", url + "/chat/completions", json={"messages": _HELLO, "stream": True}) as response:
            times = [time.monotonic() - began for line in response.iter_lines() if '"content":"' in line]
    # From the request on, because a busy machine may show the first piece late. It may also take any time longer.
    assert 0.1 <= times[0] < PATIENCE
    assert 0.1 + 0.9 * 0.02 * (len(times) - 2) <= times[-1] < PATIENCE


@pytest.mark.deep
def test_hundreds_of_streams_at_once() -> None:
    async def one(client: httpx.AsyncClient, url: str) -> str:
        body = {"messages": [{"role": "user", "content": "write 60 words"}], "stream": True}
        text = []
        async with client.stream("POST", url + "/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if '"content":' in line:
                    text.append(json.loads(line[6:])["choices"][0]["delta"].get("content") or "")
        return "".join(text)

    async def all_of_them(url: str) -> list[str]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            return await asyncio.gather(*(one(client, url) for _ in range(300)))

    with demo_model(delay_ms=10) as url:
        answers = asyncio.run(all_of_them(url))
    assert len(set(answers)) == 1
    assert len(answers[0].split()) >= 60


def test_a_client_that_leaves_stops_its_stream() -> None:
    with demo_model(delay_ms=20) as url:
        body = {"messages": [{"role": "user", "content": "write 9000 words"}], "stream": True}
        with httpx.stream("POST", url + "/chat/completions", json=body, timeout=PATIENCE) as response:
            next(response.iter_lines())
        health = url.removesuffix("/v1") + "/health"
        until(lambda: not httpx.get(health, timeout=PATIENCE).json()["streams"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_even_while_it_streams(number: signal.Signals) -> None:
    with process(DEMO_TOKEN_DELAY_MS="50") as (running, url):
        body = {"messages": [{"role": "user", "content": "write 900 words"}], "stream": True}
        with httpx.stream("POST", url + "/chat/completions", json=body, timeout=PATIENCE) as response:
            next(response.iter_lines())
            running.send_signal(number)
            assert running.wait(PATIENCE) in (0, -number)


def test_it_ends_with_the_process_that_started_it() -> None:
    script = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'codelab_local.demo_model']\n"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(PATIENCE)


def test_a_busy_port_and_a_bad_setting_are_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = (sys.executable, "-m", "codelab_local.demo_model", "--port", str(taken.getsockname()[1]))
        busy = run(*command)
    bad = run(*command, env=os.environ | {"DEMO_TOKEN_DELAY_MS": "soon"})
    for failed, words in ((busy, "use another --port"), (bad, "DEMO_TOKEN_DELAY_MS='soon'")):
        assert (failed.returncode, len(failed.stderr.splitlines())) == (1, 1)
        assert words in failed.stderr
