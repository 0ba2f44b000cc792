"""The scenarios: every file's examples are played to every end, and what users notice of some of them."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from codelab_local.demo_model import completions
from codelab_local.demo_model.player import chosen, scenarios

from tests.cases import cases
from tests.demo_model.driver import Chat, closed, streamed, turn_schema
from tests.processes import run
from tests.sampling import sampled

ROOT = Path(__file__).parents[2]
EXAMPLES = [(name, example) for name, one in scenarios().items() for example in one.data.get("examples", ())]
RESULTS: dict[str, Any] = {
    "read_file": {"content": "x = 'unmistakable'\n", "encoding": "utf-8"},
    "write_file": {"success": True, "bytes_written": 3},
    "delete_file": {"success": True},
    "list_files": {"files": [{"name": "one.dart", "type": "file"}, {"name": "sub", "type": "directory"}]},
    "run_command": {"stdout": "unmistakable\n", "stderr": "", "exit_code": 3},
    "git.diff": {"diff": "--- a/x\n+++ b/x\n"},
    "switch_agent": {"agent": "architect"},
    "update_plan": {"status": "shown"},
}
DENIED = {"error": {"code": "PERMISSION_DENIED", "message": "read-only disk"}}
CUT = '{"content":"import os\\nx = 1\\n\n[… 99 characters cut out …]\n\\nlast = 1","encoding":"utf-8"}'


def russian(text: str) -> bool:
    return any("а" <= char <= "я" for char in text.lower())


def test_every_scenario_has_examples() -> None:
    assert {name for name, _ in EXAMPLES} == scenarios().keys() - {"common"}
    assert all({russian(example) for one, example in EXAMPLES if one == name} == {True, False} for name, _ in EXAMPLES)


@pytest.mark.parametrize(("name", "example"), sampled(EXAMPLES))
@cases("end", ["completed", "edited", "rejected", "failed", "cut"])
def test_an_example_is_played_to_its_end(base_url: str, name: str, example: str, end: str) -> None:
    chat = Chat(base_url)
    assert chosen(example)[0].name == name
    message, calls = chat.ask(example)
    for _ in range(10):
        assert russian(message) == russian(example) or not message
        if not calls:
            break
        usual = [RESULTS[call["_tool"]] for call in calls]
        edits = [{**call, "path": "other.py"} for call in calls]
        edited = [{"edited_arguments": edit, "result": it} for edit, it in zip(edits, usual, strict=True)]
        ends = {"completed": usual, "edited": edited, "rejected": [{"status": "rejected", "feedback": ""}] * len(calls)}
        message, calls = chat.result(*ends.get(end, [DENIED if end == "failed" else CUT] * len(calls)))
        if end == "rejected":
            assert not calls
            assert message.startswith(("Understood", "Понял"))
        if end == "failed":
            assert not calls
            assert "PERMISSION_DENIED: read-only disk" in message
        if end == "cut":
            assert not any(call["_tool"] == "write_file" for call in calls if "unittest" not in str(call["content"]))
    assert not calls
    assert message


def test_greets_and_says_what_it_is(chat: Chat) -> None:
    message, calls = chat.ask("Привет!")
    assert message.startswith("Привет! Чем могу помочь?")
    assert "демонстрационная модель" in message
    assert "LLM_BASE_URL" in message
    assert not calls
    assert "I am the built-in demonstration model" in chat.ask("Hello!")[0]


@cases(
    "path",
    [
        "main.dart", "./x.c", "/src/update.py", "тесты/Парсер.kt", "packages/core-2/src/delete_all.ts",
        "my.long.name.rs", "app_(admin)/index.test.tsx", "2024-report.csv", "run.sh", "create-user.weird9",
        "Makefile", "_private.h",
    ],
)  # fmt: skip
@cases(
    ("question", "tool"),
    [
        ("Read the file {}", "read_file"), ("what does `{}` do?", "read_file"), ("Hi! Please analyse {}.", "read_file"),
        ("Объясни, что делает {}", "read_file"), ("Посмотри «{}» и опиши его", "read_file"),
        ("Create the file {}", "write_file"), ("create {} please", "write_file"), ("Write a file `{}`", "write_file"),
        ("Пожалуйста, создай {}", "write_file"), ("Напиши файл {}.", "write_file"), ("Сгенерируй {}", "write_file"),
    ],
)  # fmt: skip
def test_finds_a_file_by_any_name(base_url: str, question: str, tool: str, path: str) -> None:
    chat = Chat(base_url)
    _, calls = chat.ask(question.format(path))
    assert [(call["_tool"], call["path"]) for call in calls] == [(tool, path)]


@cases("question", ["Run {}", "run {}, please.", "выполни команду `{}`", "Прогони {}"])
@cases("command", ["flutter test", "go test ./...", "pytest -k 'a or b' -q", "echo 42 && date"])
def test_runs_the_command_as_it_is_written(base_url: str, question: str, command: str) -> None:
    chat = Chat(base_url)
    assert chat.ask(question.format(command))[1] == [{"_tool": "run_command", "command": command, "cwd": None}]


def test_says_nothing_about_arguments_that_it_does_not_need(chat: Chat) -> None:
    assert chat.ask("List the files")[1] == [{"_tool": "list_files", "path": ".", "recursive": False, "pattern": None}]
    assert chat.ask("Show me the changes")[1] == [{"_tool": "git.diff", "path": ".", "staged": None}]


def test_reads_and_answers_from_the_content(chat: Chat) -> None:
    message, calls = chat.ask("Прочитай файл main.dart")
    assert message == "Читаю файл main.dart…"
    assert calls == [{"_tool": "read_file", "path": "main.dart"}]
    message, calls = chat.result({"content": "void main() {\n  runApp(const App());\n}\n", "encoding": "utf-8"})
    assert not calls
    assert all(fact in message for fact in ("main.dart", "строк: 3", "runApp(const App());"))


def test_the_numbers_of_lines_are_no_part_of_a_file(chat: Chat) -> None:
    chat.ask("Read main.dart")
    message, _ = chat.result("1\tvoid main() {\n2\t}\n[lines 1 to 2 of 2]\n[lines end with CRLF]")
    assert "(lines: 2)" in message
    assert "void main() {\n}\n" in message
    assert "[lines" not in message


@pytest.mark.parametrize(
    ("notes", "content"),
    [
        ("[lines 1 to 2 of 2]", "b = 2\n\tb\n"),
        ("[lines 1 to 2 of 2]\n[lines end with CRLF]", "b = 2\r\n\tb\r\n"),
        ("[lines 1 to 2 of 3]", None),
        ("", None),
    ],
)
def test_a_file_with_numbered_lines_is_changed_if_all_of_it_was_shown(
    chat: Chat, notes: str, content: str | None
) -> None:
    chat.ask("Replace “a” with “b” in x.py")
    message, calls = chat.result(f"1\ta = 2\n2\t\ta\n{notes}")
    assert [call["content"] for call in calls] == ([content] if content is not None else [])
    assert message


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


def test_reads_several_files_at_once(chat: Chat) -> None:
    _, calls = chat.ask("прочитай a.py, lib/b.dart и «мой файл.txt»")
    assert [call["path"] for call in calls] == ["a.py", "lib/b.dart", "мой файл.txt"]
    message, calls = chat.result({"content": "x = 1"}, DENIED, {"content": "z"})
    assert not calls
    assert all(part in message for part in ("x = 1", "lib/b.dart: ошибка PERMISSION_DENIED", "мой файл.txt"))


def test_names_the_edited_file(chat: Chat) -> None:
    _, calls = chat.ask("Создай файл test.py")
    assert calls == [{"_tool": "write_file", "path": "test.py", "content": "print('hello')\n"}]
    edited = {"path": "test_modified.py", "content": "print('hello world')"}
    message, calls = chat.result({"result": {"success": True}, "edited_arguments": edited})
    assert (message, calls) == ("Файл test_modified.py создан с вашими изменениями", [])


def test_writes_what_it_is_told(chat: Chat) -> None:
    _, calls = chat.ask("Create notes.txt with the text:\n\nrun to the hills")
    assert calls[0] == {"_tool": "write_file", "path": "notes.txt", "content": "run to the hills\n"}
    _, calls = chat.ask("создай a.js с таким кодом:\n```js\nlet a = 1;\n```")
    assert calls[0] == {"_tool": "write_file", "path": "a.js", "content": "let a = 1;\n"}


def test_writes_a_long_text_as_it_is(chat: Chat) -> None:
    text = "one two\n" * 1_000
    _, calls = chat.ask(f"Create notes.txt with the text:\n```\n{text}```")
    assert calls[0]["content"] == text


@cases("piece", ["x", " ", "(", "(a)", "a.", "hi ", "the ", "please ", "`", "«", "x/", "run ", "… "])
def test_a_strange_question_takes_no_time(piece: str) -> None:
    began = time.process_time()
    for start in ("", "run ", "create a.py with the text "):
        question = {"role": "user", "content": start + piece * (10_000 // len(piece))}
        described = {"name": "turn", "schema": turn_schema()}
        form = {"type": "json_schema", "json_schema": described}
        assert completions.answer(completions.Request(messages=[question], response_format=form))
    assert time.process_time() - began < 5


def test_replaces_a_text(chat: Chat) -> None:
    chat.ask("Replace “left” with “right” in a.py")
    message, calls = chat.result({"content": "left = 1\nprint(left)\n"})
    assert calls == [{"_tool": "write_file", "path": "a.py", "content": "right = 1\nprint(right)\n"}]
    assert chat.result({"success": True}) == ("File a.py was changed", [])
    chat.ask("Replace “up” with “down” in a.py")
    message, calls = chat.result({"content": "left = 1\n"})
    assert (message, calls) == ("“up” is not in a.py.", [])


#: What people ask in their first minutes and only a real model could do, and the tools that are called all the same.
NATURAL = {
    "Fix the tests": [],
    "fix the failing test in test_cart.py": [],
    "почини тест": [],
    "There is a bug somewhere in cart.py, can you find it?": ["read_file"],
    "Why does cart.py crash with an empty list?": [],
    "Add logging to main.dart": [],
    "Write tests for cart.py": [],
    "Напиши тесты для cart.py": [],
    "Create main.py that downloads a page and counts its words": [],
    "run the linter and fix what it finds": [],
    "Run all the tests and tell me why they fail": [],
    "Plan the migration to Postgres": [],
    "Составь план перехода на Postgres": [],
    "Refactor this project to use async": [],
    "What does this repository do?": [],
    "О чём этот проект?": [],
    "Сделай код быстрее": [],
    "How do I undo my last commit?": [],
    "Explain recursion to me": [],
    "Почему всё так медленно работает?": [],
}


@cases("question", NATURAL)
def test_what_only_a_real_model_could_do_gets_no_pretended_answer(base_url: str, question: str) -> None:
    chat = Chat(base_url)
    message, calls = chat.ask(question)
    assert [call["_tool"] for call in calls] == NATURAL[question]
    if calls:
        message, calls = chat.result({"content": "x = 1\n"})
    assert not calls
    assert ("по сценарию" if russian(question) else "scripted") in message
    assert "codelab setup`" in message
    assert len(message.split("\n")) == 1 or "x = 1" in message


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("thanks", "welcome"),
        ("спасибо!", "Пожалуйста"),
        ("what model are you?", "built-in demonstration model"),
        ("ты ChatGPT?", "демонстрационная модель"),
        ("What can you do?", "Try:"),
    ],
)
def test_small_talk_is_answered(chat: Chat, question: str, says: str) -> None:
    message, calls = chat.ask(question)
    assert says in message
    assert not calls


@cases("language", ["en", "ru"])
def test_what_the_page_has_a_newcomer_try_is_played(language: str) -> None:
    texts = (ROOT / f"clients/web/src/i18n/{language}.ts").read_text("utf-8")
    suggestions = re.findall(r"^  'chat\.try\.\d': '(.+)',$", texts, re.MULTILINE)
    assert len(suggestions) == 3
    for suggestion in suggestions:
        assert chosen(suggestion)[0].name not in {"only_a_real_model", "anything_else"}, suggestion


def test_the_command_that_connects_a_model_exists_here(chat: Chat) -> None:
    [command] = re.findall(r"`(\S+) setup`", chat.ask("Fix the tests")[0])
    assert Path(command).expanduser().exists()


def test_repairs_a_test_that_really_fails(chat: Chat, tmp_path: Path) -> None:
    def execute(call: dict[str, Any]) -> dict[str, Any]:
        if call["_tool"] == "write_file":
            (tmp_path / call["path"]).write_text(call["content"])
            return {"success": True}
        # Else the bytecode of the first run is taken for that of the program that is repaired within the same second.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        ran = run(*call["command"].split(), cwd=tmp_path, env=environment)
        exit_codes.append(ran.returncode)
        return {"stdout": ran.stdout, "stderr": ran.stderr, "exit_code": ran.returncode}

    exit_codes: list[int] = []
    message, calls = chat.ask("Repair a failing test")
    while calls:
        message, calls = chat.result(*map(execute, calls))
    assert exit_codes == [1, 0]
    assert message == "Repaired: the test passes."


def test_thinks_apart_from_its_answer_and_refuses_as_providers_do(base_url: str) -> None:
    url = base_url + "/chat/completions"
    body = {"messages": [{"role": "user", "content": "Think aloud"}]}
    assert "The user wants" in "".join(streamed(url, body, of="reasoning_content"))
    assert "The user wants" not in "".join(streamed(url, body))
    described = {"type": "json_schema", "json_schema": {"name": "turn", "schema": turn_schema()}}
    body = {"messages": [{"role": "user", "content": "Удали всё"}], "response_format": described}
    assert "не буду" in "".join(streamed(url, body, of="refusal"))
    assert "".join(streamed(url, body)) == ""


def test_answers_the_last_of_joined_questions(chat: Chat) -> None:
    _, calls = chat.ask("Прочитай файл a.py\n\nЗапусти npm test")
    assert [call["_tool"] for call in calls] == ["run_command"]


def test_calls_only_what_it_is_given(base_url: str) -> None:
    reader = Chat(base_url, turn_schema("read_file", "switch_agent"))
    message, calls = reader.ask("Создай файл a.py")
    assert not calls
    assert "write_file" in message
    assert reader.ask("прочитай a.py")[1] == [{"_tool": "read_file", "path": "a.py"}]


def test_knows_the_enum_form(base_url: str) -> None:
    _, calls = Chat(base_url, turn_schema("read_file", "write_file", enum=True)).ask("read a.py")
    assert calls == [{"_tool": "read_file", "path": "a.py"}]


def test_keeps_to_the_language_of_the_conversation(chat: Chat) -> None:
    chat.ask("Привет!")
    assert chat.ask("main.dart")[0] == "Читаю файл main.dart…"


@pytest.mark.parametrize(("question", "words"), [("write 1500 words about rivers", 1500), ("Расскажи подробно", 400)])
def test_talks_at_length(chat: Chat, question: str, words: int) -> None:
    assert len(chat.ask(question)[0].split()) == words


@pytest.mark.parametrize("strategy", ["tools", "json"])
def test_speaks_every_strategy(base_url: str, strategy: str) -> None:
    chat = Chat(base_url, strategy=strategy)
    assert chat.ask("Создай файл src/x.dart")[1][0]["path"] == "src/x.dart"
    assert chat.result({"success": True})[0] == "Файл src/x.dart создан успешно"


def test_chooses_a_fitting_agent_before_it_says_anything(base_url: str) -> None:
    turn = turn_schema()
    agents = {"enum": ["architect", "ask", "coder", "universal"]}
    described = {"name": "answer", "schema": closed({"agent": agents, **turn["properties"]})}
    for question, agent in (("Создай файл a.py", "coder"), ("Hello!", "universal")):
        body = {
            "messages": [{"role": "user", "content": question}],
            "response_format": {"type": "json_schema", "json_schema": described},
        }
        answer = json.loads("".join(streamed(base_url + "/chat/completions", body)))
        assert list(answer) == ["agent", "message", "calls"]
        assert answer["agent"] == agent
