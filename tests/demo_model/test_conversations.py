"""What the demonstration model does after the first step, and where it declines."""

import json
from typing import Any

import pytest

from tests.demo_model.driver import Chat, turn_schema


def test_greets_and_says_what_it_is(chat: Chat) -> None:
    message, calls = chat.ask("Привет!")
    assert message.startswith("Привет! Чем могу помочь?")
    assert "демонстрационная модель" in message
    assert "LLM_BASE_URL" in message
    assert calls == []


def test_reads_and_answers_from_the_content(chat: Chat) -> None:
    message, calls = chat.ask("Прочитай файл main.dart")
    assert message == "Читаю файл main.dart…"
    assert calls == [{"_tool": "read_file", "path": "main.dart"}]
    source = "import 'package:flutter/material.dart';\n\nvoid main() {\n  runApp(const App());\n}\n\nclass App {}\n"
    message, calls = chat.result({"content": source, "encoding": "utf-8"})
    assert calls == []
    for fact in ("7 строк", "Dart", "Функции: main", "App", "package:flutter/material.dart", "runApp(const App());"):
        assert fact in message


@pytest.mark.parametrize(
    ("path", "source", "facts"),
    [
        (
            "a.py",
            "import os\nfrom json import loads\n\nclass A:\n    async def go(self): ...\n",
            ("os", "json", "A", "go"),
        ),
        (
            "a.ts",
            "import { x } from './x';\nexport const f = async (a) => a;\nexport function g() {}\n",
            ("./x", "f", "g"),
        ),
        ("a.go", 'package a\n\nimport "fmt"\n\nfunc (s *S) Run() error {\n', ("fmt", "Run")),
        ("a.rs", "use std::io;\npub struct P;\npub(crate) fn go() {}\n", ("std::io", "P", "go")),
        ("A.java", "import java.util.List;\npublic class A {\n  public static void main(String[] a) {\n", ("main",)),
        ("a.c", "#include <stdio.h>\nint main(void) {\n", ("stdio.h", "main")),
        ("a.kt", "data class P(val x: Int)\nfun go() {}\n", ("P", "go")),
        ("README.md", "# Title\n\n## Usage\n", ("Title", "Usage")),
        ("c.toml", "[tool.ruff]\nx = 1\n", ("tool.ruff",)),
        ("p.json", '{\n  "name": "x",\n  "version": "1"\n}\n', ("name", "version")),
    ],
)
def test_finds_definitions_in_many_languages(chat: Chat, path: str, source: str, facts: tuple[str, ...]) -> None:
    chat.ask(f"Explain {path}")
    message, _ = chat.result({"content": source})
    said = message.split("```")[0]
    assert all(fact in said for fact in facts), said


@pytest.mark.parametrize("content", ["", "\n" * 5, "x" * 900_000, "```\n" * 50, "\u2028\x00\ud7ff", "{" * 100_000])
def test_reads_any_content(chat: Chat, content: str) -> None:
    chat.ask("read odd.txt")
    message, calls = chat.result({"content": content})
    assert "odd.txt" in message
    assert len(message) < 5_000
    assert not calls


@pytest.mark.parametrize("result", ["plain text", '"a string"', "[1, 2]", "null", "7", {"text": "abc"}, {}])
def test_reads_results_of_any_shape(chat: Chat, result: Any) -> None:
    chat.ask("read a.py")
    message, calls = chat.result(result)
    assert "a.py" in message
    assert not calls


def test_creates_after_approval(chat: Chat) -> None:
    message, calls = chat.ask("Создай файл test.py")
    assert message == ""
    assert calls == [{"_tool": "write_file", "path": "test.py", "content": "print('hello')\n"}]
    message, calls = chat.result({"success": True, "bytes_written": 15})
    assert (message, calls) == ("Файл test.py создан успешно", [])


@pytest.mark.parametrize("wrapped", [True, False])
def test_names_the_edited_file(chat: Chat, wrapped: bool) -> None:
    chat.ask("Создай файл test.py")
    edited = {"path": "test_modified.py", "content": "print('hello world')"}
    result: dict[str, Any] = {"success": True}
    envelope = {"status": "completed", "result": result} if wrapped else result
    message, calls = chat.result({**envelope, "edited_arguments": edited})
    assert (message, calls) == ("Файл test_modified.py создан с вашими изменениями", [])


def test_accepts_a_rejection(chat: Chat) -> None:
    chat.ask("Создай файл test.py")
    message, calls = chat.result({"status": "rejected", "feedback": "Не хочу создавать этот файл"})
    assert (message, calls) == ("Понял, не буду создавать файл. Что-то еще?", [])
    message, calls = chat.ask("run npm test")
    assert [call["_tool"] for call in calls] == ["run_command"]
    message, calls = chat.result({"status": "rejected", "feedback": None})
    assert (message, calls) == ("Understood, I will not run the command. Anything else?", [])


@pytest.mark.parametrize(
    "error", [{"code": "PERMISSION_DENIED", "message": "read-only disk"}, "PERMISSION_DENIED: read-only disk"]
)
@pytest.mark.parametrize("question", ["Создай файл a/b.py", "прочитай a/b.py", "запусти ls", "добавь тест в a/b.py"])
def test_says_what_failed_and_stops(chat: Chat, question: str, error: Any) -> None:
    chat.ask(question)
    message, calls = chat.result({"error": error})
    assert "PERMISSION_DENIED: read-only disk" in message
    assert not calls


def test_writes_what_it_is_told(chat: Chat) -> None:
    _, calls = chat.ask("create hello.go that prints hi")
    assert 'fmt.Println("hi")' in calls[0]["content"]
    _, calls = chat.ask("Create notes.txt with the text Buy milk")
    assert calls[0]["content"] == "Buy milk\n"
    _, calls = chat.ask("создай a.js с таким кодом:\n```js\nlet a = 1;\n```")
    assert calls[0] == {"_tool": "write_file", "path": "a.js", "content": "let a = 1;\n"}


def test_reads_several_files_at_once(chat: Chat) -> None:
    _, calls = chat.ask("прочитай a.py, lib/b.dart и «мой файл.txt»")
    assert [call["path"] for call in calls] == ["a.py", "lib/b.dart", "мой файл.txt"]
    message, calls = chat.result(
        {"content": "x = 1"}, {"error": {"code": "FILE_NOT_FOUND", "message": "no"}}, {"content": "z"}
    )
    assert not calls
    assert all(part in message for part in ("x = 1", "lib/b.dart: FILE_NOT_FOUND", "мой файл.txt"))


def test_compares_two_files(chat: Chat) -> None:
    _, calls = chat.ask("Compare a.py and b.py")
    assert [call["path"] for call in calls] == ["a.py", "b.py"]
    message, _ = chat.result({"content": "same\nleft"}, {"content": "same\nright\nmore"})
    assert "Lines in common: 1. Only in a.py: 1, only in b.py: 2." in message


def test_changes_several_files(chat: Chat) -> None:
    chat.ask("добавь комментарии в a.py и b.py")
    _, calls = chat.result({"content": "a"}, {"content": "b"})
    assert [(call["_tool"], call["path"]) for call in calls] == [("write_file", "a.py"), ("write_file", "b.py")]
    message, calls = chat.result({"success": True}, {"status": "rejected"})
    assert not calls
    assert "a.py изменён" in message
    assert "не буду изменять файл b.py" in message


def test_never_writes_back_what_it_saw_only_in_part(chat: Chat) -> None:
    chat.ask("добавь логирование в big.py")
    message, calls = chat.result(
        '{"content":"import os\\nx = 1\\n\n[… 99 characters cut out …]\n\\nlast = 1","encoding":"utf-8"}'
    )
    assert not calls
    assert "big.py" in message
    chat.ask("прочитай big.py")
    message, _ = chat.result(
        '{"content":"import os\\nx = 1\\n\n[… 99 characters cut out …]\n\\nlast = 1","encoding":"utf-8"}'
    )
    assert "Импорты: os" in message
    assert "\\n" not in message


def test_answers_the_last_of_joined_questions(chat: Chat) -> None:
    _, calls = chat.ask("Прочитай файл a.py\n\nЗапусти npm test")
    assert [call["_tool"] for call in calls] == ["run_command"]
    _, calls = chat.ask("Create notes.txt with the text:\n\nrun to the hills")
    assert calls[0]["content"] == "run to the hills\n"


def test_writes_tests_next_to_the_source(chat: Chat) -> None:
    _, calls = chat.ask("Напиши тесты для src/shop.py")
    assert calls == [{"_tool": "read_file", "path": "src/shop.py"}]
    _, calls = chat.result({"content": "def buy():\n    pass\n"})
    assert calls[0]["path"] == "src/test_shop.py"
    assert "def test_buy" in calls[0]["content"]
    message, calls = chat.result({"success": True})
    assert (message, calls) == ("Файл src/test_shop.py создан успешно", [])


def test_shows_a_diff(chat: Chat) -> None:
    chat.ask("покажи изменения")
    diff = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n-a\n+b\n+c"
    message, _ = chat.result({"diff": diff})
    assert "x.py; строк добавлено 2, удалено 1" in message
    chat.ask("покажи изменения")
    assert chat.result({"diff": ""})[0] == "Изменений нет."


def test_calls_only_what_it_is_given(base_url: str) -> None:
    reader = Chat(base_url, turn_schema("read_file", "prompt_user"))
    message, calls = reader.ask("Создай файл a.py")
    assert not calls
    assert "write_file" in message
    _, calls = reader.ask("прочитай a.py")
    assert calls == [{"_tool": "read_file", "path": "a.py"}]


def test_knows_the_enum_form_and_nullable_calls(base_url: str) -> None:
    _, calls = Chat(base_url, turn_schema("read_file", enum=True)).ask("read a.py")
    assert calls == [{"_tool": "read_file", "path": "a.py"}]


def test_keeps_to_the_language_of_the_conversation(chat: Chat) -> None:
    chat.ask("Привет!")
    message, _ = chat.ask("main.dart")
    assert message == "Читаю файл main.dart…"


def test_talks_at_length(chat: Chat) -> None:
    message, calls = chat.ask("write 1500 words about rivers")
    assert not calls
    assert 1500 <= len(message.split()) < 1700
    message, _ = chat.ask("Расскажи подробно о реках")
    assert 400 <= len(message.split()) < 500


@pytest.mark.parametrize("strategy", ["tools", "json"])
def test_speaks_every_strategy(base_url: str, strategy: str) -> None:
    chat = Chat(base_url, strategy=strategy)
    _, calls = chat.ask("Создай файл src/x.dart")
    assert calls[0]["path"] == "src/x.dart"
    message, _ = chat.result({"success": True})
    assert message == "Файл src/x.dart создан успешно"


def test_reads_a_history_that_was_written_as_json(chat: Chat) -> None:
    earlier = {"message": "", "calls": [{"_tool": "read_file", "path": "k.py"}]}
    chat.messages += [
        {"role": "user", "content": [{"type": "text", "text": "прочитай k.py"}]},
        {"role": "assistant", "content": json.dumps(earlier)},
        {"role": "tool", "tool_call_id": "whatever", "content": '{"content": "qqq"}'},
    ]
    message, calls = chat.step()
    assert "k.py" in message
    assert "qqq" in message
    assert not calls
