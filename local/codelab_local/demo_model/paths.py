"""Finding file and folder names in a question that a person typed."""

import re

_QUOTED = re.compile(
    r"`([^`\n]{1,255})`|\"([^\"\n]{1,255})\"|«([^»\n]{1,255})»|“([^”\n]{1,255})”|(?<!\w)'([^'\n]{1,255})'(?!\w)"
)
_WORD = re.compile(r"[^\s,;|]+")
_NAMES_WITHOUT_EXTENSION = re.compile(
    r"makefile|dockerfile|jenkinsfile|procfile|gemfile|rakefile|vagrantfile|podfile|brewfile|justfile|"
    r"codeowners",
    re.IGNORECASE,
)
_UPPER_NAMES = re.compile(r"README|LICENSE|CHANGELOG|CONTRIBUTING|AUTHORS|NOTICE|COPYING|TODO|VERSION")
# Looks like a file, is a word of the language or a product.
_NOT_FILES = re.compile(
    r"e\.g|i\.e|a\.m|p\.m|a\.k\.a|u\.s|т\.е|т\.д|т\.п|т\.к|node\.js|vue\.js|next\.js|nuxt\.js|react\.js|"
    r"three\.js|d3\.js|express\.js|asp\.net|socket\.io|console\.log",
    re.IGNORECASE,
)
_DOMAINS = re.compile(
    r"com|org|net|ru|io",
    re.IGNORECASE,
)
_DOTFILE = re.compile(r"\.[A-Za-z][\w.-]*")
_WITH_EXTENSION = re.compile(r"[^\\/]*[\w)\]-]\.(?P<ext>[A-Za-z0-9_+-]{1,12})")
_VERSION = re.compile(r"[vV]?\d[\d.]*(?:[a-z]{1,2}\d*)?")
_FILE_WORD = re.compile(
    r"(?:файл\w*|\bfile)\s+(?:с\s+(?:именем|названием)\s+|под\s+названием\s+|named\s+|called\s+|по\s+имени\s+)?"
    r"[`\"«']?([A-Za-z_][\w./\\-]*)",
    re.IGNORECASE,
)
_FOLDER_WORD = re.compile(
    r"(?:\bпапк\w*|\bкаталог\w*|\bдиректори\w+|\bfolder|\bdirectory)\s+(?:called\s+|named\s+|с\s+именем\s+)?"
    r"[`\"«']?([\w./@\\-]+)",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"\b(?:в|во|из|внутри|in|inside|under|of|from|at)\s+(?:the\s+|my\s+|our\s+)?[`\"«']?([\w./@\\-]+)",
    re.IGNORECASE,
)
_NOT_FOLDERS = re.compile(
    r"the|this|that|a|an|it|my|our|all|project|repo|repository|workspace|root|here|current|directory|folder|"
    r"files|file|total|detail|order|there|projects|codebase|with|and|for|which|where|in|to|from|папке|"
    r"каталоге|директории|проекте|репозитории|корне",
    re.IGNORECASE,
)


def _clean(token: str) -> str:
    token = token.strip("()<>{}\"'`«»“”*").lstrip(",;:!?").rstrip(",;:!?…")
    token = re.sub(r"['’]s$", "", token)
    if token.startswith("[") and token.endswith("]"):
        token = token[1:-1]
    token = re.sub(r"^(?:file|файл|path|путь)[:=]", "", token, flags=re.IGNORECASE)
    token = re.sub(r":\d+(?:[:-]\d+)?$", "", token)  # main.py:42
    return token.rstrip(".,;:!?…\"'`»”)") if not token.endswith(("/..", "/.")) else token


def looks_like_file(token: str) -> bool:
    """True for `main.py`, `src/app`-less names with an extension, dotfiles and well-known names."""
    if not 1 < len(token) <= 255 or "://" in token or token.startswith("-") or token.endswith(("/", "\\")):
        return False
    if _NOT_FILES.fullmatch(token) or ("@" in token and "/" not in token):
        return False
    name = re.split(r"[\\/]", token)[-1]
    if _NAMES_WITHOUT_EXTENSION.fullmatch(name) or _UPPER_NAMES.fullmatch(name) or _DOTFILE.fullmatch(name):
        return True
    if _VERSION.fullmatch(name):
        return False
    match = _WITH_EXTENSION.fullmatch(name)
    if match is None:
        return False
    extension = match["ext"]
    if not re.search(r"[A-Za-z]", extension):
        return False
    return "/" in token or not _DOMAINS.fullmatch(extension)


def find_files(text: str) -> list[tuple[int, int, str]]:
    """Every file named in `text`, in order: (start, end, path exactly as written)."""
    found: list[tuple[int, int, str]] = []
    taken = [False] * (len(text) + 1)
    for match in _QUOTED.finditer(text):
        inside = next(group for group in match.groups() if group is not None).strip()
        words = inside.split()
        # A quoted name may have spaces; a quoted command or sentence is not a name.
        if inside and (len(words) == 1 or "/" not in words[-1]) and _quoted_file(inside, words):
            found.append((match.start(), match.end(), inside))
            taken[match.start() : match.end()] = [True] * (match.end() - match.start())
    for match in _WORD.finditer(text):
        if taken[match.start()] or match[0].rstrip(".,;:!?").endswith("()"):
            continue
        token = _clean(match[0])
        if looks_like_file(token):
            found.append((match.start(), match.end(), token))
    found.sort()
    if not found and (named := _FILE_WORD.search(text)) and not _NOT_FOLDERS.fullmatch(named[1]):
        name = _clean(named[1])
        if name and not re.match(r"(?:is|has|does|called|named|contents?|name|size|system)$", name, re.IGNORECASE):
            found.append((named.start(1), named.end(1), name))
    return found


def _quoted_file(inside: str, words: list[str]) -> bool:
    if len(words) == 1:
        return looks_like_file(inside)
    first_is_command = bool(re.fullmatch(r"[a-z][\w-]*", words[0])) and len(words) > 1
    return looks_like_file(inside) and len(words) <= 4 and not first_is_command


def find_folder(text: str) -> str:
    """The folder a question is about, `.` for the whole project."""
    for match in _QUOTED.finditer(text):
        inside = next(group for group in match.groups() if group is not None).strip()
        if inside and " " not in inside and "*" not in inside:
            return inside
    for match in _FOLDER_WORD.finditer(text):
        name = _clean(match[1])
        if name and not _NOT_FOLDERS.fullmatch(name):
            return name
    for match in re.finditer(r"(?<![\w*])[\w.@-]*/[\w./@-]*", text):
        if match[0] not in {"/", "./"}:
            return match[0].rstrip("?!,;:") if match[0].endswith("/") else _clean(match[0])
    for match in _PREPOSITION.finditer(text):
        name = _clean(match[1])
        if name and not _NOT_FOLDERS.fullmatch(name) and not re.search(r"[А-Яа-яЁё]", name):
            return name
    return "."


def mask(text: str, spans: list[tuple[int, int, str]]) -> str:
    """`text` with every file name overwritten, so that `update.py` is not taken for a verb."""
    for start, end, _ in spans:
        text = text[:start] + "\x00" * (end - start) + text[end:]
    return text
