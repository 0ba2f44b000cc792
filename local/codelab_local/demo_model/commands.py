"""The shell command in "run npm install, please" and "запусти тесты через pytest -q"."""

import re

from codelab_local.demo_model.paths import looks_like_file

_INTERPRETERS = {
    "py": "python", "js": "node", "mjs": "node", "cjs": "node", "ts": "npx tsx", "dart": "dart run", "go": "go run",
    "rb": "ruby", "php": "php", "sh": "bash", "bash": "bash", "pl": "perl", "lua": "lua", "r": "Rscript",
    "jl": "julia", "java": "java", "kts": "kotlin", "swift": "swift", "ps1": "pwsh",
}  # fmt: skip
_TOOLS = re.compile(
    r"flutter|dart|npm|yarn|pnpm|go|cargo|make|mvn|gradle|pytest|dotnet|bazel|bun|deno|mix|rake|tox|swift",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^[\s:,–—-]*(?:(?:мне|нам|пожалуйста|please|команд[уаы]|the|this|following|command|скрипт|script|файл|file|программу"
    r"|program|в\s+(?:терминале|консоли)|in\s+(?:the|a)\s+(?:terminal|shell|console))\b[\s:,]*)+",
    re.IGNORECASE,
)
_TAIL_REQUEST = re.compile(
    r"[,;.]?\s+(?:and|then|и|а\s+затем|затем|потом)\s+(?:then\s+)?(?:show|tell|report|give|explain|покаж|скаж|расскаж|сообщ"
    r"|выведи|объясн)\w*\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_TAIL_POLITE = re.compile(
    r"(?:,?\s+(?:пожалуйста|please|for\s+me|now|сейчас|in\s+(?:the|a)\s+(?:terminal|shell|console)|в\s+(?:терминале|консоли)))+$",
    re.IGNORECASE,
)
_FOLDER = re.compile(
    r"\s+(?:(?:в|из)\s+(?:папк[еи]|каталог[еа]|директории)\s+|(?:in|inside|from)\s+(?:the\s+)?(?:folder|directory)\s+)[`\"«']?"
    r"(?P<after>[\w./@-]+)[`\"»']?|\s+in\s+(?:the\s+)?(?P<before>[\w./@-]+)\s+(?:folder|directory)\b",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[\w\"'`)»*])[.!?…]+$")
# Said in words, not typed: anything with Cyrillic letters, "all unit tests", "flutter tests", "the build".
_SPOKEN = re.compile(
    r"[А-Яа-яЁё]|^(?:(?:all|unit|my|our|the|existing|integration)\s+)*"
    r"(?:(?:\w+\s+)?tests|test|test\s+suite|build|linter|lint|app|application|project|server)$",
    re.IGNORECASE,
)
_USUAL = (
    (re.compile(r"тест|\btests?\b|test suite", re.IGNORECASE), "test"),
    (re.compile(r"сборк|\bbuild\b", re.IGNORECASE), "build"),
    (re.compile(r"линтер|\blint\w*\b", re.IGNORECASE), "lint"),
    (re.compile(r"проект|приложени|сервер|\b(?:project|app|application|server)\b", re.IGNORECASE), "run"),
)


def find_command(rest: str) -> tuple[str, str]:
    """(command, folder) from what follows the verb; the command is empty when there is none."""
    rest = rest.strip()
    folder = "."
    if match := _FOLDER.search(rest):
        folder = (match["after"] or match["before"]).rstrip(".!?")
        rest = (rest[: match.start()] + rest[match.end() :]).strip()
    rest = _TAIL_POLITE.sub("", rest)
    if quoted := re.search(r"`([^`\n]+)`|«([^»\n]+)»|“([^”\n]+)”", rest):
        return next(group for group in quoted.groups() if group).strip(), folder
    if quoted := re.fullmatch(r"\W*(?:команд\w+\s+|the\s+command\s+)?([\"'])(.+)\1[.!?]*", rest):
        return quoted[2].strip(), folder
    rest = _LEAD.sub("", rest)
    rest = _TAIL_REQUEST.sub("", rest)
    rest = _END.sub("", _TAIL_POLITE.sub("", _END.sub("", rest.strip())).strip()).strip()
    if using := re.search(r"(?:\bwith|\busing|\bvia|через|с\s+помощью|командой)\s+([A-Za-z./][\x20-\x7e]*)$", rest):
        return using[1].strip(), folder
    if not rest:
        return "", folder
    return _as_command(rest), folder


def _as_command(rest: str) -> str:
    words = rest.split()
    if looks_like_file(words[0]) and not words[0].startswith("./"):
        interpreter = _INTERPRETERS.get(words[0].rsplit(".", 1)[-1].lower())
        return f"{interpreter} {rest}" if interpreter else rest
    if not _SPOKEN.search(rest) or (_TOOLS.fullmatch(words[0]) and words[-1].lower() != "tests"):
        return rest
    tool = next((word.lower() for word in words if _TOOLS.fullmatch(word)), "make")
    for pattern, target in _USUAL:
        if pattern.search(rest):
            return "pytest" if tool == "pytest" else f"{tool} {target}"
    typed = re.search(r"[A-Za-z./][\x20-\x7e]*", rest)
    return typed[0].strip(" .,!?") if typed else ""
