"""What a person asks for, read from one Russian or English sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codelab_local.demo_model.commands import find_command
from codelab_local.demo_model.paths import find_files, find_folder, mask

Kind = Literal[
    "greeting", "thanks", "farewell", "about", "read", "compare", "create", "change", "tests", "run", "list",
    "diff", "delete", "search", "mkdir", "move", "status", "log", "commit", "long", "code", "other",
]  # fmt: skip


@dataclass(frozen=True)
class Intent:
    """One understood question: its kind and whatever that kind needs."""

    kind: Kind
    paths: tuple[str, ...] = ()
    command: str = ""
    text: str = ""
    """What to write into a file, to search for, or to say in a commit."""
    folder: str = "."
    pattern: str = ""
    recursive: bool = False
    staged: bool = False
    words: int = 400


_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)

_CREATE = (
    r"созда\w*|сгенерир\w+|напи(?:ши|шите|сать)\b|запи(?:ши|шите|сать)\b|сохрани\w*|завед(?:и|ите|ём|ем)\b"
    r"|сделай\w*\s+(?:мне\s+)?(?:(?:новый|пустой|простой)\s+)*(?:файл|скрипт|страниц|модуль|\x00)"
    r"|(?:нужен|нужно|хочу)\s+(?:новый\s+|ещё\s+|еще\s+)?файл|добав\w+\s+(?:(?:новый|пустой)\s+)?файл"
    r"|\b(?:create|write|generate|save|scaffold|touch|new\s+file)\b"
    r"|\bmake\s+(?:me\s+|us\s+)?(?:a\b|an\b|new\b|file\b|the\s+file\b|\x00+\s*$)"
    r"|\badd\s+(?:a\s+|an\s+)?(?:new\s+|empty\s+)?file\b|\bneed\s+(?:a\s+)?(?:new\s+)?file\b"
)
_CHANGE = (
    r"добав(?:ь|ьте|ить|ляй)\b|измени(?:ть|те)?\b|поменя(?:й|йте|ть)\b|исправ(?:ь|ьте|ить)\b|почин\w+|обнови\w*"
    r"|замени\w*|переимен\w+|(?:от)?рефактор\w*|перепи(?:ши|шите|сать)\b|убер\w+|убрать|встав(?:ь|ьте|ить)\b"
    r"|допи(?:ши|шите|сать)\b|дополни\w*|улучш\w+|оптимизир\w+|отформатир\w+|прокомментир\w+|задокументир\w+"
    r"|пофикс\w*|поправ\w+|подправ\w+|внес(?:и|ите|ти)\b|реализ(?:уй|уйте|овать)\b|доработ\w+|модифицир\w+"
    r"|передела\w+|уда(?:ли|лите|лить)\b(?=.{1,60}\sиз\s)"
    r"|\b(?:add|change|modify|edit|update|fix|refactor|replace|insert|append|improve|optimi[sz]e|implement"
    r"|rewrite|document|extend|patch|adjust|convert|migrate|rename|tweak|correct|wrap)\b"
    r"|\b(?:remove|delete)\b(?=.{1,60}\sfrom\s)|\bmake\s+(?:some\s+)?(?:changes?|edits?)\b|\bmake\s+\x00+\s+\w+"
    r"|\bput\b.{1,60}\b(?:in|into)\b"
)
_READ = (
    r"прочита\w*|прочти\w*|прочесть|чита\w+|проанализир\w+|анализ\w*|объясн\w+|поясн\w+|покаж\w+|показать"
    r"|посмотр\w+|глян\w+|взгляни\w*|откро\w+|расска\w+|опиш\w+|\b(?:что|как|какие|какой|какая|почему|зачем|где)\b"
    r"|разбер\w+|изучи\w*|провер\w+|сравни\w*|обзор|ревью|\bнайди\w*|ознаком\w+|выведи|просмотр\w*|разъясн\w+"
    r"|напи(?:ши|шите|сать),?\s+(?:мне\s+)?(?:что|как|почему|зачем|о|об|про)\b"
    r"|\b(?:read|analy[sz]e|explain|show|open|look|describe|summari[sz]e|review|what|how|why|where|which|who|tell"
    r"|inspect|examine|check|print|display|cat|view|compare|walk|give|find|is|does|are)\b"
    r"|\bwrite\s+(?:down\s+)?(?:what|how|why|about)\b"
    r"|\bwrite\s+(?:me\s+)?(?:an?\s+)?(?:\w+\s+)?(?:summary|explanation|review|description|overview|analysis)\b"
)
_RUN = r"запус(?:ти|тите|тить|кай)\b|выполн(?:и|ите|ить)\b|прогон\w+|исполни\w*|\b(?:run|execute|launch)\b"
_DIFF = (
    r"\bgit\s+diff\b|\bdiff\b|\bдифф?\w?\b"
    r"|(?:покаж\w+|какие|посмотр\w+|выведи|show|view|see|list|what\s+are|display|review)\b[^\x00.]{0,30}"
    r"\b(?:изменени\w+|changes)\b"
    r"|что\s+(?:\w+\s+)?(?:изменил\w*|поменял\w*)|\bwhat(?:'s|’s)?\s+(?:\w+\s+){0,2}changed?\b|uncommitted|незакоммич\w+"
)
_LIST = (
    r"(?:какие|перечисли\w*|список|покаж\w+|выведи|посмотр\w+)\s+(?:\S+\s+){0,3}(?:файлы|файлов|папки|папок|каталоги)\b"
    r"|(?:содержим\w+|состав)\s+(?:папк|каталог|директори|проект|репозитори)\w*"
    r"|что\s+(?:есть\s+|лежит\s+|находится\s+|у\s+меня\s+)?(?:внутри|в|во)\s+(?:папк|каталог|директори|проект|репозитори)\w*"
    r"|что\s+(?:есть|лежит|находится)\s+(?:внутри|в|во)\b|(?:структур|дерево)\w*\s+(?:проект|файл|папк|каталог|репозитори)\w*"
    r"|\blist\b\s+(?:\S+\s+){0,4}?(?:files?|folders?|director(?:y|ies)|contents?)\b|\blist\s+\S+/"
    r"|\b(?:what|which)\s+(?:\S+\s+)?files\b|\bshow\s+(?:me\s+)?(?:\S+\s+){0,2}(?:files|folder|directory|tree)\b"
    r"|\bfiles\s+(?:are\s+)?(?:in|inside|under)\b|\bcontents?\s+of\s+(?:the\s+)?(?:\S+\s+)?(?:folder|directory|project)"
    r"|\bwhat(?:'s|’s|\s+is|\s+do\s+we\s+have)?\s+(?:there\s+)?(?:in|inside)\s+(?:the\s+)?\S+\s+(?:folder|directory)"
    r"|\bwhat(?:'s|’s|\s+is)\s+(?:in|inside)\b|\b(?:project|directory|folder)\s+(?:structure|tree)\b"
)
_DELETE = r"\bуда(?:ли|лите|лить)\b|\b(?:delete|remove)\b"
_MOVE = r"перемест\w+|переимен\w+|перенес\w+|\b(?:move|rename)\b"
_MKDIR = (
    r"(?:созда\w*|сделай|добав\w+)\s+(?:мне\s+)?(?:(?:новую|новый|пустую|пустой)\s+)?(?:папк|каталог|директори)\w*"
    r"|\b(?:create|make|add)\s+(?:me\s+)?(?:an?\s+|the\s+)?(?:new\s+|empty\s+)?(?:\S+\s+)?(?:folder|directory)\b|\bmkdir\b"
)
_SEARCH = (
    r"(?:\bнайди\w*|\bнайти|поищи\w*|\bищи\w*|\bпоиск\w*|где\s+(?:используется|вызывается|встречается|определ\w+))"
    r"|\b(?:find|search|grep|look\s+for)\b|\bwhere\s+is\b.{1,60}\b(?:used|called|defined)\b"
)
_STATUS = r"\bgit\s+status\b|\bстатус\s+(?:git|гит|репозитори)\w*|\bstatus\s+of\s+(?:the\s+)?(?:repo|git)\w*"
_LOG = (
    r"\bgit\s+log\b|истори\w+\s+(?:коммитов|git|гит|изменений)|последни\w+\s+коммит\w*"
    r"|\b(?:commit\s+history|recent\s+commits|last\s+commits?)\b"
)
_COMMIT = (
    r"закоммить\w*|закоммитить|сделай\w*\s+коммит"
    r"|\bcommit\s+(?:the\s+|my\s+|these\s+|all\s+)?(?:changes|everything|it|this|with)\b|\bgit\s+commit\b"
)
_TESTS = r"\bтест\w*\s+(?:для|к|на)\b|\btests?\s+(?:for|of|covering)\b"
_LONG = (
    r"\bподробн\w+|\bдлинн\w+\s+(?:ответ|текст|рассказ|истори)\w*|\bэссе\b|\bсочинени\w+|\bin\s+(?:great\s+)?detail\b"
    r"|\bdetailed\b|\blong(?:er)?\s+(?:answer|text|story|response|essay)\b|\bessay\b|\b\d{2,5}\s+(?:слов|words|tokens|токен)\w*"
)
_CODE = (
    r"\bфункци\w+|\bкласс\w*|\bскрипт\w*|\bкод\w*|\bпрограмм\w+|\bметод\w*|\bалгоритм\w*|\bзапрос\w*"
    r"|\b(?:function|class|script|code|program|method|algorithm|query|regex|component)\b"
)


def _compiled(patterns: Sequence[tuple[Kind, str]]) -> tuple[tuple[Kind, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in patterns)


# In this order a tie is decided: the more special kind first.
_KINDS = _compiled(
    (
        ("diff", _DIFF), ("status", _STATUS), ("log", _LOG), ("commit", _COMMIT), ("mkdir", _MKDIR),
        ("list", _LIST), ("run", _RUN), ("search", _SEARCH), ("read", _READ), ("create", _CREATE),
        ("change", _CHANGE), ("move", _MOVE), ("delete", _DELETE),
    )
)  # fmt: skip
_GREETING = re.compile(
    r"^\W*(?:привет\w*|здравствуй\w*|добр(?:ый|ое|ого|ой)\s+\w+|хай|салют|доброго\s+времени\s+суток|hello|hi|hey|howdy|hola"
    r"|good\s+(?:morning|day|afternoon|evening)|greetings)\b(?:\s+(?:there|all|everyone|всем))?[\s,!.)]*",
    re.IGNORECASE,
)
_SMALL_TALK = _compiled(
    (
        ("thanks", r"^\W*(?:(?:большое\s+)?спасибо|благодарю|thanks|thank\s+you|thx|cheers)\b"),
        ("farewell", r"^\W*(?:пока|до\s+(?:свидания|встречи|завтра)|bye|goodbye|see\s+you)\b"),
        ("greeting", r"^\W*(?:как\s+(?:дела|ты|жизнь|поживаешь)|how\s+are\s+you|how's\s+it\s+going|what's\s+up)\b"),
        (
            "about",
            (
                r"\bкто\s+ты\b|\bты\s+кто\b|что\s+ты\s+(?:умеешь|можешь)|чем\s+(?:ты\s+)?можешь\s+помочь|какая\s+(?:ты\s+|это\s+)?модель"
                r"|^\W*(?:помощь|помоги|help)\W*$|\bwho\s+are\s+you\b|\bwhat\s+(?:can\s+you\s+do|are\s+you)\b|\bwhat\s+model\b"
                r"|\bhow\s+can\s+you\s+help\b"
            ),
        ),
    )
)
_THEN_CHANGE = re.compile(
    rf"(?:[,;.]|\bи\b|\bа\b|\bзатем\b|\bпотом\b|\band\b|\bthen\b)\s*(?:(?:затем|потом|then|please|пожалуйста)\s+)*(?:{_CHANGE})",
    re.IGNORECASE,
)
_HOW_TO = re.compile(r"\b(?:как|how)\s+(?:\S+\s+){0,3}$", re.IGNORECASE)


def understand(question: str) -> Intent:
    """The intent of `question`; never fails, `other` when nothing is recognised."""
    fences = _FENCE.findall(question)
    text = _FENCE.sub(" ", question).strip()
    spans = find_files(text)
    paths = tuple(dict.fromkeys(path for _, _, path in spans))
    masked = mask(text, spans)
    greeting = _GREETING.match(masked)
    if greeting:
        masked = "\x01" * greeting.end() + masked[greeting.end() :]
        if not masked[greeting.end() :].strip(" !.?)("):
            return Intent("greeting")
    kind, start, end = _first_kind(masked, bool(paths))
    if not paths and kind in {"other", "read"}:
        talk = masked[greeting.end() :] if greeting else masked
        for small, pattern in _SMALL_TALK:
            if pattern.search(talk):
                return Intent(small)
    return _build(kind, text, masked, start, end, paths, fences)


def _first_kind(masked: str, has_paths: bool) -> tuple[Kind, int, int]:
    """The kind whose words come first in the sentence, and where they are."""
    found: list[tuple[int, int, Kind, int]] = []
    for rank, (kind, pattern) in enumerate(_KINDS):
        match = pattern.search(masked)
        if match and (not has_paths or kind not in {"list", "search"} or _names_folder(kind, masked, match)):
            found.append((match.start(), rank, kind, match.end()))
    if not found:
        return ("read" if has_paths else "other"), 0, 0
    start, _, kind, end = min(found)
    if kind == "read":  # "look", "show", "what" say little: "look what has changed" is about the changes
        special = [one for one in found if one[2] in {"diff", "status", "log", "list", "search"}]
        start, _, kind, end = min(special, default=(start, 0, kind, end))
    if kind == "read" and has_paths and _THEN_CHANGE.search(masked, end):
        return "change", start, end
    if kind == "run" and _HOW_TO.search(masked[:start]):
        return ("read" if has_paths else "other"), start, end
    return kind, start, end


def _names_folder(kind: Kind, masked: str, match: re.Match[str]) -> bool:
    """True for "files in docs/api.v2": the name looks like a file's, but files are in it."""
    return (
        kind == "list"
        and bool(re.search(r"файл|папк|каталог|files|folder|director", match[0], re.I))
        and bool(
            re.match(
                r"\s*(?:(?:в|во|из|in|inside|under|of)\s+)?(?:the\s+)?(?:(?:папк|каталог|директори)\w*\s+)?\W?\x00",
                masked[match.end() :],
            )
        )
    )


def _build(
    kind: Kind, text: str, masked: str, start: int, end: int, paths: tuple[str, ...], fences: list[str]
) -> Intent:
    if kind == "run":
        command, folder = find_command(text[end:])
        return Intent("run", command=command, folder=folder)
    if kind == "diff":
        if len(paths) > 1:
            return Intent("compare", paths)
        staged = bool(re.search(r"\bstaged\b|проиндекс|застейдж|\bcached\b", text, re.IGNORECASE))
        return Intent("diff", paths, staged=staged)
    if kind == "list":
        pattern = re.search(r"(?<!\S)[`\"']?(\*[\w.*{},-]+|\.[a-z]{1,5}(?=\s+(?:files|файл)))", text)
        glob = pattern[1] if pattern else ""
        return Intent(
            "list",
            folder=find_folder(text.replace(glob, "") if glob else text),
            pattern=glob if not glob.startswith(".") else "*" + glob,
            recursive=bool(
                re.search(r"рекурсивно|\bвсе\b|дерево|структур|recursive|\ball\b|\btree\b", text, re.IGNORECASE)
            ),
        )
    if kind == "search":
        return _search(text, masked, end)
    if kind == "mkdir":
        return Intent("mkdir", folder=find_folder(text[start:]))
    if kind == "move" or (kind == "change" and len(paths) == 2 and re.match(_MOVE, masked[start:end], re.I)):
        return Intent("move" if len(paths) == 2 else "change", paths, text=text)
    if kind == "delete":
        return Intent("delete", paths) if paths else Intent("other")
    if kind in {"status", "log"}:
        return Intent(kind, paths)
    if kind == "commit":
        quoted = re.search(r"[\"«“'`]([^\"»”'`]+)[\"»”'`]", text)
        return Intent("commit", text=quoted[1] if quoted else "Update the project")
    if kind in {"create", "change"} and len(paths) in {1, 2} and re.search(_TESTS, masked, re.IGNORECASE):
        return Intent("tests", paths, text=text)
    if paths and kind in {"create", "change", "read"}:
        if kind == "read" and len(paths) > 1 and re.search(r"сравни|compare|\bdiffer|отлич|разниц", masked, re.I):
            return Intent("compare", paths)
        content = fences[0] if fences else _given_content(text)
        return Intent(kind, paths, text=content if kind == "create" else text)
    if re.search(_LONG, text, re.IGNORECASE):
        number = re.search(r"\b(\d{2,5})\s+(?:слов|words|tokens|токен)", text, re.IGNORECASE)
        return Intent("long", text=_topic(text), words=min(20_000, int(number[1])) if number else 400)
    if kind == "create" and re.search(r"файл|\bfile\b", text, re.IGNORECASE):
        return Intent("create")
    if kind in {"create", "change"} and re.search(_CODE, text, re.IGNORECASE):
        return Intent("code", text=text)
    return Intent("other", text=text)


def _given_content(text: str) -> str:
    """The content a person dictates ("with the text X", "that prints X"), marked `print:` for a program's output."""
    said = re.search(
        r"(?:с\s+(?:текстом|содержимым|содержанием|кодом)|with\s+(?:the\s+)?(?:text|content|contents|code)|containing)\s*:?\s+(.+)$",
        text,
        re.IGNORECASE | re.DOTALL,
    )
    if said:
        return said[1].strip().strip("`\"'«»“”")
    printed = re.search(
        r"(?:котор\w+\s+(?:выводит|печатает|пишет)|выводящ\w+|печатающ\w+|that\s+(?:prints|outputs|says|writes|logs)|printing"
        r"|(?:to|which)\s+prints?)\s+(.+)$",
        text,
        re.IGNORECASE,
    )
    return "print:" + printed[1].strip().rstrip(".!?").strip("`\"'«»“”") if printed else ""


def _search(text: str, masked: str, end: int) -> Intent:
    rest = text[end:]
    quoted = re.search(r"[\"«“'`]([^\"»”'`]+)[\"»”'`]", rest)
    if quoted:
        return Intent("search", text=quoted[1], folder=find_folder(rest.replace(quoted[0], " ")))
    name = re.search(
        r"[A-Za-z_][\w.]{2,}(?:\(\))?",
        re.sub(r"\b(?:for|the|all|every|uses?|usages?|of|where|is)\b", " ", rest, flags=re.I),
    )
    if name is None or re.search(r"\b(?:ошибк|баг|bug|error|problem)", text, re.IGNORECASE):
        return Intent("other", text=text)
    return Intent("search", text=name[0].removesuffix("()").rstrip("."), folder=find_folder(rest.replace(name[0], " ")))


def _topic(text: str) -> str:
    topic = re.search(r"\b(?:о|об|про|about|on)\s+(.{3,80}?)\s*[.!?]*$", text, re.IGNORECASE)
    return topic[1] if topic else ""
