"""What can be said about a source file by looking at it: its language, definitions, imports, first lines."""

import re
from dataclasses import dataclass

LANGUAGES = {
    "py": "Python", "pyi": "Python", "js": "JavaScript", "mjs": "JavaScript", "cjs": "JavaScript",
    "jsx": "JavaScript (React)",
    "ts": "TypeScript", "tsx": "TypeScript (React)", "dart": "Dart", "go": "Go", "rs": "Rust", "java": "Java",
    "kt": "Kotlin", "kts": "Kotlin", "c": "C", "h": "C", "cpp": "C++", "cc": "C++", "hpp": "C++", "cs": "C#",
    "rb": "Ruby", "php": "PHP", "swift": "Swift", "scala": "Scala", "sh": "Shell", "bash": "Shell", "html": "HTML",
    "htm": "HTML",
    "css": "CSS", "scss": "SCSS", "less": "Less", "md": "Markdown", "json": "JSON", "yaml": "YAML", "yml": "YAML",
    "toml": "TOML", "ini": "INI", "sql": "SQL", "xml": "XML", "txt": "text", "lua": "Lua", "r": "R", "ex": "Elixir",
    "exs": "Elixir", "hs": "Haskell", "vue": "Vue", "svelte": "Svelte", "tf": "Terraform", "proto": "Protocol Buffers",
    "graphql": "GraphQL", "csv": "CSV", "gradle": "Gradle", "pl": "Perl", "jl": "Julia", "zig": "Zig",
}  # fmt: skip
_NAMES = {"dockerfile": "Dockerfile", "makefile": "Makefile"}
_FUNCTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^\s*(?:async\s+)?def\s+(?:self\.)?(\w+)",
        r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*(\w+)",
        r"^\s*(?:export\s+)?(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?(?:\([^()]{0,120}\)|\w+)\s*=>",
        (
            r"^\s*(?:(?:public|private|internal|override|suspend|open|static|mutating|inline|pub|async|unsafe)(?:\([^)]*\))?\s+)*"
            r"(?:func|fun|fn|sub|local function)\s+(?:\([^)]*\)\s*)?(\w+)"
        ),
        (
            r"^\s*(?:[A-Za-z_][\w<>\[\],?*&.:]*\s+){1,4}[*&]?(\w+)\s*\([^;]{0,200}\)\s*"
            r"(?:const\s*)?(?:async\*?\s*)?(?:throws\s+[\w, ]+)?(?:\{|=>|$)"
        ),
        r"(?i)^\s*create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+(\w+)",
    )
)
_CLASSES = re.compile(
    r"^\s*(?:(?:export|default|public|private|abstract|final|sealed|data|open|static|pub|internal|partial)\s+)*"
    r"(?:class|interface|struct|enum|trait|mixin|protocol|object|type)\s+([A-Z_]\w*)"
)
_IMPORTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^\s*from\s+([\w.]+)\s+import\b",
        r"^\s*import\s+(?:[\w*{}\s,$]+\s+from\s+)?['\"]([^'\"]+)['\"]",
        r"^\s*(?:const|let|var)\s+[\w{}\s,]+=\s*require\(['\"]([^'\"]+)['\"]\)",
        r"^\s*import\s+(?:static\s+)?([\w.]+(?:\s*,\s*[\w.]+)*)",
        r"^\s*#\s*include\s+[<\"]([^>\"]+)[>\"]",
        r"^\s*use\s+([\w:\\]+)",
        r"^\s*using\s+([\w.]+)\s*;",
        r"^\s*require(?:_relative)?\s+['\"]([^'\"]+)['\"]",
    )
)
_HEADINGS = {
    "Markdown": re.compile(r"^#{1,3}\s+(.+?)\s*#*$"),
    "TOML": re.compile(r"^\s*\[\[?([^\]]+)\]"),
    "INI": re.compile(r"^\s*\[([^\]]+)\]"),
    "YAML": re.compile(r"^([\w.-]+)\s*:"),
    "JSON": re.compile(r"^(?: {2}|\t)\"([^\"]+)\"\s*:"),
    "SQL": re.compile(r"(?i)^\s*create\s+table\s+(?:if\s+not\s+exists\s+)?[\"`]?(\w+)"),
    "HTML": re.compile(r"(?i)<(?:title|h1|h2)[^>]*>([^<]+)<"),
    "CSS": re.compile(r"^([.#]?[\w-][\w\s.#:>,-]*?)\s*\{"),
    "SCSS": re.compile(r"^([.#]?[\w-][\w\s.#:>,-]*?)\s*\{"),
    "Makefile": re.compile(r"^([\w.-]+)\s*:(?!=)"),
}
_PROSE = frozenset(
    {"text", "Markdown", "CSV", "HTML", "XML", "CSS", "SCSS", "Less", "JSON", "YAML", "TOML", "INI", "SQL", "Makefile"}
)
_KEYWORDS = re.compile(
    r"if|for|while|switch|return|else|catch|new|do|try|with|function|def|class|await|yield|throw|super|this|"
    r"sizeof|match|when|case|in|of|not|and|or|elif|except"
)
_MAX_LINES = 5_000


@dataclass(frozen=True)
class Outline:
    """Names are unique and in order of appearance; `lines` counts the whole file, names come from its first part."""

    language: str
    lines: int
    functions: tuple[str, ...]
    classes: tuple[str, ...]
    imports: tuple[str, ...]
    headings: tuple[str, ...]
    first_lines: tuple[str, ...]


def extension(path: str) -> str:
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower() if "." in name.lstrip(".") else ""


def language_of(path: str) -> str:
    """A file's language by its name, or an empty string."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return _NAMES.get(name) or LANGUAGES.get(extension(path), "")


def outline(path: str, content: str) -> Outline:
    """Look through `content`; bounded work for a file of any size."""
    language = language_of(path)
    lines = content.splitlines()
    functions: dict[str, None] = {}
    classes: dict[str, None] = {}
    imports: dict[str, None] = {}
    headings: dict[str, None] = {}
    heading = _HEADINGS.get(language)
    for line in lines[:_MAX_LINES]:
        if not line or len(line) > 300:
            continue
        if heading and (match := heading.search(line)):
            headings[match[1].strip()] = None
        if language in _PROSE:
            continue
        if match := _CLASSES.match(line):
            classes[match[1]] = None
        elif name := _first(_IMPORTS, line):
            imports[name] = None
        elif (name := _first(_FUNCTIONS, line)) and not line.lstrip().startswith(
            ("return ", "else ", "new ", "throw ", "await ")
        ):
            functions[name] = None
    shown = [line[:160] for line in lines[:8]]
    return Outline(
        language, len(lines), tuple(functions), tuple(classes), tuple(imports), tuple(headings), tuple(shown)
    )


def _first(patterns: tuple[re.Pattern[str], ...], line: str) -> str:
    for pattern in patterns:
        match = pattern.match(line)
        if match and not _KEYWORDS.fullmatch(match[1]):
            return match[1]
    return ""
