"""Every kind of request, in two languages, with names nobody has thought of."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from tests.demo_model.driver import Chat

_STEMS = (
    "main",
    "user-service",
    "auth_controller",
    "Парсер",
    "x",
    "HttpClient2",
    "update",
    "read_me",
    "create-user",
    "run",
    "index.test",
    "app.module",
    "delete_all",
    "v2",
    "my.long.name",
    "_private",
    "данные",
    "list-files",
    "show",
    "2024-report",
)
_EXTENSIONS = (
    "py",
    "dart",
    "ts",
    "tsx",
    "js",
    "go",
    "rs",
    "java",
    "kt",
    "c",
    "cpp",
    "h",
    "cs",
    "rb",
    "php",
    "swift",
    "sh",
    "html",
    "css",
    "md",
    "json",
    "yaml",
    "toml",
    "sql",
    "txt",
    "xml",
    "vue",
    "lua",
    "ini",
    "proto",
    "csv",
    "tf",
    "ex",
    "weird9",
)
_FOLDERS = ("", "", "src/", "lib/widgets/", "./", "packages/core-2/src/", "тесты/", "a/b/c/d/", "/src/", "app_(admin)/")
_TEMPLATES: dict[str, dict[str, tuple[str, ...]]] = {
    "read": {
        "ru": (
            "Прочитай файл {p}",
            "Проанализируй {p}",
            "Объясни, что делает {p}",
            "Покажи мне {p}, пожалуйста",
            "что в файле `{p}`?",
            "Привет! Открой, пожалуйста, {p}.",
            "Расскажи про {p}",
            "о чём {p}?",
            "Посмотри «{p}» и опиши его",
        ),
        "en": (
            "Read the file {p}",
            "what does {p} do?",
            "Could you explain {p}?",
            "Show me {p}, please.",
            'Summarize "{p}"',
            "Hi! Please analyse {p}",
            "Tell me about {p}",
            "Take a look at `{p}`",
            "Review {p} for me",
        ),
    },
    "create": {
        "ru": (
            "Создай файл {p}",
            "Пожалуйста, создай {p}",
            "Напиши файл `{p}`",
            "Мне нужен файл {p}",
            "Сгенерируй {p}.",
        ),
        "en": (
            "Create the file {p}",
            "create {p} please",
            "Write a new file {p}",
            "Generate `{p}`",
            "Add a new file called {p}",
        ),
    },
    "change": {
        "ru": (
            "Добавь логирование в {p}",
            "Исправь ошибку в файле {p}",
            "Измени {p}: убери лишнее",
            "Прочитай {p} и добавь тесты",
        ),
        "en": (
            "Add logging to {p}",
            "fix the bug in {p}",
            "Please refactor {p}",
            "Read {p} and then add error handling",
        ),
    },
    "list": {
        "ru": ("Какие файлы в {d}?", "покажи файлы в папке {d}", "Перечисли файлы в {d}"),
        "en": ("What files are in {d}?", "list the files in {d}", "Show me the files in the {d} folder"),
    },
    "run": {
        "ru": ("Запусти {c}", "выполни команду `{c}`", "Прогони {c}, пожалуйста"),
        "en": ("Run {c}", "please execute `{c}`", "run {c} in the terminal, please."),
    },
    "diff": {
        "ru": ("покажи изменения", "Что изменилось?", "покажи git diff"),
        "en": ("show me the changes", "What has changed?", "git diff please"),
    },
    "greeting": {
        "ru": ("Привет!", "Добрый день", "привет, как дела?"),
        "en": ("Hello!", "Good morning", "hi, how are you?"),
    },
}
_COMMANDS = (
    "flutter test",
    "npm install",
    "go test ./...",
    "cargo build --release",
    "pytest -k 'a or b' -q",
    "ls -la src",
    "dart run build_runner build",
    "./gradlew assemble",
    "git status --short",
    "docker compose up -d",
    "echo 42 && date",
)
_FOLDER_NAMES = ("src", "lib/widgets", "packages/core-2", "test_data", "docs/api.v2", "./app")
_CALLS = {
    "read": "read_file",
    "create": "write_file",
    "change": "read_file",
    "list": "list_files",
    "run": "run_command",
}


@dataclass(frozen=True)
class Case:
    kind: str
    language: str
    question: str
    subject: str


def _cases() -> list[Case]:
    chance = random.Random(20_250_117)
    cases = []
    for kind, languages in _TEMPLATES.items():
        for language, templates in languages.items():
            for template in templates:
                for _ in range(3 if "{" in template else 1):
                    path = chance.choice(_FOLDERS) + chance.choice(_STEMS) + "." + chance.choice(_EXTENSIONS)
                    subject = {"list": chance.choice(_FOLDER_NAMES), "run": chance.choice(_COMMANDS)}.get(kind, path)
                    question = template.format(p=subject, d=subject, c=subject)
                    cases.append(Case(kind, language, question, subject))
    return cases


CASES = _cases()


def cyrillic(text: str) -> bool:
    return any("а" <= char <= "я" for char in text.lower())


def speaks(message: str, case: Case) -> bool:
    said = message.replace(case.subject, "")
    return not said or cyrillic(said) == (case.language == "ru")


def test_there_are_enough_of_them() -> None:
    assert len({case.question for case in CASES}) >= 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.question)
def test_is_understood(chat: Chat, case: Case) -> None:
    message, calls = chat.ask(case.question)
    assert speaks(message, case), message
    if case.kind == "greeting":
        assert not calls
        assert "LLM_BASE_URL" in message
        return
    if case.kind == "diff":
        assert calls == [{"_tool": "git.diff", "path": ".", "staged": None}]
        return
    assert [call["_tool"] for call in calls] == [_CALLS[case.kind]]
    call: dict[str, Any] = calls[0]
    assert call["command" if case.kind == "run" else "path"] == case.subject
    assert (message == "") == (case.kind == "create")
    _FINISH[case.kind](chat, case, call)


def _finish_read(chat: Chat, case: Case, call: dict[str, Any]) -> None:
    message, calls = chat.result({"content": "alpha = 1\nbeta = 2\nunmistakable\n", "encoding": "utf-8"})
    assert not calls
    assert case.subject in message
    assert "unmistakable" in message
    assert "3 строки" in message or "3 lines" in message
    assert speaks(message.split("```")[0], case)


def _finish_create(chat: Chat, case: Case, call: dict[str, Any]) -> None:
    assert call["content"].strip()
    message, calls = chat.result({"success": True, "bytes_written": 5})
    assert not calls
    expected = {"ru": f"Файл {case.subject} создан успешно", "en": f"File {case.subject} was created successfully"}
    assert message == expected[case.language]


def _finish_change(chat: Chat, case: Case, call: dict[str, Any]) -> None:
    before = '{"a": 1}\n' if case.subject.endswith(".json") else "first line\nsecond line"
    _, calls = chat.result({"content": before})
    assert [(call["_tool"], call["path"]) for call in calls] == [("write_file", case.subject)]
    written = calls[0]["content"]
    assert written != before
    assert '"a": 1' in written or written.startswith(before)
    message, calls = chat.result({"success": True})
    assert not calls
    assert case.subject in message
    assert speaks(message, case)


def _finish_list(chat: Chat, case: Case, call: dict[str, Any]) -> None:
    files = [{"name": "one.dart", "type": "file", "size": 3}, {"name": "sub", "type": "directory"}]
    message, calls = chat.result({"files": files})
    assert not calls
    assert "one.dart" in message
    assert "sub/" in message


def _finish_run(chat: Chat, case: Case, call: dict[str, Any]) -> None:
    output = "".join(f"line {number}\n" for number in range(100))
    message, calls = chat.result({"stdout": output, "stderr": "", "exit_code": 3})
    assert not calls
    assert case.subject in message
    assert "3" in message.split("```")[0]
    assert "line 99" in message
    assert "line 9\n" not in message


_FINISH = {
    "read": _finish_read,
    "create": _finish_create,
    "change": _finish_change,
    "list": _finish_list,
    "run": _finish_run,
}
