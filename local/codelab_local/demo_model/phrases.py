"""What the demonstration model says, in the language of the question."""

from typing import Literal

Language = Literal["ru", "en"]

_PHRASES: dict[str, dict[Language, str]] = {
    "demo": {
        "ru": "Я встроенная демонстрационная модель (demonstration): работаю без сети и умею немного. Чтобы подключить "
        "настоящую модель, задайте LLM_BASE_URL, LLM_API_KEY и LLM_MODEL и запустите снова.",
        "en": "I am the built-in demonstration model: I work offline and know only a few tricks. To use a real model, "
        "set LLM_BASE_URL, LLM_API_KEY and LLM_MODEL and start again.",
    },
    "greeting": {"ru": "Привет! Чем могу помочь?", "en": "Hello! How can I help you?"},
    "suits": {"ru": "Этот агент подходит для такого запроса.", "en": "This agent suits the request."},
    "thanks": {"ru": "Пожалуйста! Что-то еще?", "en": "You are welcome! Anything else?"},
    "farewell": {"ru": "До встречи!", "en": "Goodbye!"},
    "about": {
        "ru": "Я могу читать и объяснять файлы, создавать и изменять их, запускать команды, показывать список файлов "
        "и изменения в git. Попробуйте: «Прочитай README.md», «Создай файл test.py», «Запусти ls».",
        "en": "I can read and explain files, create and change them, run commands, list files and show git changes. "
        "Try: “Read README.md”, “Create test.py”, “Run ls”.",
    },
    "other": {
        "ru": "Вы написали: «{question}». На такой вопрос у меня нет содержательного ответа.",
        "en": "You wrote: “{question}”. I have no real answer to that.",
    },
    "code": {"ru": "Вот набросок ({name}):", "en": "Here is a sketch ({name}):"},
    "code_end": {
        "ru": "Могу записать его в файл: «создай файл имя с кодом …».",
        "en": "I can put it into a file: “create NAME with the code …”.",
    },
    "no_tool": {
        "ru": "Я не могу этого сделать: инструмент {tool} мне не доступен.",
        "en": "I cannot do that: the tool {tool} is not available to me.",
    },
    "reading": {"ru": "Читаю файл {path}…", "en": "Reading {path}…"},
    "reading_many": {"ru": "Читаю файлы {paths}…", "en": "Reading {paths}…"},
    "changing": {"ru": "Вношу изменения в {path}…", "en": "Changing {path}…"},
    "writing_tests": {"ru": "Пишу тесты в {path}…", "en": "Writing tests to {path}…"},
    "too_long": {
        "ru": "Не буду изменять {paths}: файл слишком велик, чтобы увидеть его целиком.",
        "en": "I will not change {paths}: it is too large to be seen as a whole.",
    },
    "running": {"ru": "Запускаю команду `{command}`…", "en": "Running `{command}`…"},
    "listing": {"ru": "Смотрю файлы в {path}…", "en": "Listing the files in {path}…"},
    "diffing": {"ru": "Смотрю изменения…", "en": "Looking at the changes…"},
    "looking": {"ru": "Смотрю…", "en": "Looking…"},
    "searching": {"ru": "Ищу «{text}»…", "en": "Searching for “{text}”…"},
    "which_file": {
        "ru": "Как назвать файл? Например: «создай файл hello.py».",
        "en": "What should the file be called? For example: “create hello.py”.",
    },
    "which_command": {
        "ru": "Какую команду запустить? Например: «запусти ls -la».",
        "en": "Which command should I run? For example: “run ls -la”.",
    },
    "which_folder": {"ru": "Как назвать папку?", "en": "What should the folder be called?"},
    "written": {"ru": "Файл {path} создан успешно", "en": "File {path} was created successfully"},
    "written_edited": {
        "ru": "Файл {path} создан с вашими изменениями",
        "en": "File {path} was created with your changes",
    },
    "changed": {
        "ru": "Файл {path} изменён: в конец добавлена пометка с вашей просьбой. Настоящая модель изменила бы сам код.",
        "en": "File {path} was changed: a note with your request was appended. A real model would change the code.",
    },
    "changed_edited": {"ru": "Файл {path} изменён с вашими правками", "en": "File {path} was changed with your edits"},
    "reject_create": {
        "ru": "Понял, не буду создавать файл. Что-то еще?",
        "en": "Understood, I will not create the file. Anything else?",
    },
    "reject_change": {
        "ru": "Понял, не буду изменять файл {path}. Что-то еще?",
        "en": "Understood, I will not change {path}. Anything else?",
    },
    "reject_run": {
        "ru": "Понял, не буду запускать команду. Что-то еще?",
        "en": "Understood, I will not run the command. Anything else?",
    },
    "reject_delete": {
        "ru": "Понял, не буду удалять {path}. Что-то еще?",
        "en": "Understood, I will not delete {path}. Anything else?",
    },
    "reject": {
        "ru": "Понял, не буду этого делать. Что-то еще?",
        "en": "Understood, I will not do that. Anything else?",
    },
    "fail_read": {"ru": "Не удалось прочитать файл {path}: {reason}.", "en": "Could not read {path}: {reason}."},
    "fail_write": {"ru": "Не удалось записать файл {path}: {reason}.", "en": "Could not write {path}: {reason}."},
    "fail_run": {
        "ru": "Команда `{command}` не выполнена: {reason}.",
        "en": "The command `{command}` failed to run: {reason}.",
    },
    "fail": {"ru": "Инструмент {tool} не сработал: {reason}.", "en": "The tool {tool} failed: {reason}."},
    "unknown_reason": {"ru": "причина неизвестна", "en": "unknown reason"},
    "no_result": {"ru": "Результата инструмента {tool} нет.", "en": "There is no result of the tool {tool}."},
    "read": {"ru": "Файл {path} прочитан: {facts}.", "en": "I have read {path}: {facts}."},
    "empty": {"ru": "Файл {path} прочитан: он пуст.", "en": "I have read {path}: it is empty."},
    "functions": {"ru": "Функции: {names}.", "en": "Functions: {names}."},
    "classes": {"ru": "Классы и типы: {names}.", "en": "Classes and types: {names}."},
    "imports": {"ru": "Импорты: {names}.", "en": "Imports: {names}."},
    "headings": {"ru": "Разделы: {names}.", "en": "Sections: {names}."},
    "nothing_found": {
        "ru": "Объявлений функций и классов не нашлось.",
        "en": "I found no definitions of functions or classes.",
    },
    "begins": {"ru": "Начало файла:", "en": "It begins with:"},
    "same": {"ru": "Файлы {paths} совпадают.", "en": "The files {paths} are the same."},
    "compared": {
        "ru": "Общих строк: {common}. Только в {left}: {only_left}, только в {right}: {only_right}.",
        "en": "Lines in common: {common}. Only in {left}: {only_left}, only in {right}: {only_right}.",
    },
    "ran": {
        "ru": "Команда `{command}` завершилась с кодом {code}.",
        "en": "The command `{command}` exited with code {code}.",
    },
    "ran_signal": {"ru": "Команда `{command}` прервана: {code}.", "en": "The command `{command}` was stopped: {code}."},
    "output": {"ru": "Конец вывода:", "en": "The end of its output:"},
    "no_output": {"ru": "Вывода нет.", "en": "There was no output."},
    "files": {"ru": "В {path}: {count}.", "en": "In {path}: {count}."},
    "no_files": {"ru": "В {path} ничего нет.", "en": "There is nothing in {path}."},
    "no_diff": {"ru": "Изменений нет.", "en": "There are no changes."},
    "diff": {
        "ru": "Изменено: {files}; строк добавлено {added}, удалено {removed}.",
        "en": "Changed: {files}; {added} lines added, {removed} removed.",
    },
    "done": {"ru": "Готово: {tool} {path}.", "en": "Done: {tool} {path}."},
    "result": {"ru": "Результат инструмента {tool}:", "en": "The result of {tool}:"},
    "edited": {"ru": "(с вашими изменениями)", "en": "(with your changes)"},
    "and_more": {"ru": "и ещё {count}", "en": "and {count} more"},
}
_ESSAY: dict[Language, tuple[str, ...]] = {
    "ru": (
        "Это длинный ответ демонстрационной модели, он нужен, чтобы увидеть передачу текста по частям.",
        "Каждое слово приходит отдельным фрагментом, как у настоящей модели.",
        "Клиент показывает фрагменты сразу и складывает их в одно сообщение.",
        "Если соединение прервётся, недостающее придёт после повторного подключения.",
        "Порядок фрагментов внутри одного сообщения сохраняется.",
        "Содержание здесь не важно: важны скорость и ровность потока.",
    ),
    "en": (
        "This is a long answer of the demonstration model, made to let you see text streaming.",
        "Every word arrives as a piece of its own, as it does from a real model.",
        "The client shows the pieces at once and joins them into one message.",
        "Should the connection break, what is missing comes after reconnecting.",
        "The order of the pieces within one message is kept.",
        "The content does not matter here: speed and steadiness do.",
    ),
}


def say(key: str, language: Language, **values: object) -> str:
    return _PHRASES[key][language].format(**values)


def essay(language: Language, words: int, topic: str) -> str:
    """A text of `words` words, in numbered paragraphs."""
    head = {"ru": f"О теме «{topic}».", "en": f"On “{topic}”."}[language].split() if topic else []
    sentences = [sentence.split() for sentence in _ESSAY[language]]
    pieces: list[str] = head[:words]
    count, paragraph = len(pieces), 0
    while count < words:
        pieces.append(("\n\n" if pieces else "") + f"{paragraph + 1}.")
        for sentence in sentences:
            taken = sentence[: words - count]
            pieces += taken
            count += len(taken)
        paragraph += 1
    return " ".join(pieces).replace(" \n\n", "\n\n")


def plural_lines(count: int, language: Language) -> str:
    if language == "en":
        return f"{count} line" if count == 1 else f"{count} lines"
    return f"{count} {_russian(count, 'строка', 'строки', 'строк')}"


def plural_entries(count: int, language: Language) -> str:
    if language == "en":
        return f"{count} entry" if count == 1 else f"{count} entries"
    return f"{count} {_russian(count, 'элемент', 'элемента', 'элементов')}"


def _russian(count: int, one: str, few: str, many: str) -> str:
    if count % 100 in range(11, 15):
        return many
    return one if count % 10 == 1 else few if count % 10 in (2, 3, 4) else many


def names(items: tuple[str, ...], language: Language, limit: int = 12) -> str:
    listed = ", ".join(items[:limit])
    return listed if len(items) <= limit else f"{listed} {say('and_more', language, count=len(items) - limit)}"
