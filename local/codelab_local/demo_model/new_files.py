"""Contents for new files, and changes to existing ones, that make sense for the file's extension."""

import json
import re

from codelab_local.demo_model.source import extension, language_of

_HASH = "# {}"
_SLASHES = "// {}"
_MARKUP = "<!-- {} -->"
_COMMENTS = {
    **dict.fromkeys(
        ("Python", "Shell", "Ruby", "YAML", "TOML", "Dockerfile", "Makefile", "R", "Elixir", "Terraform", "Perl"),
        _HASH,
    ),
    **dict.fromkeys(
        ("Julia", "GraphQL"),
        _HASH,
    ),
    **dict.fromkeys(("HTML", "XML", "Markdown", "Vue", "Svelte"), _MARKUP),
    **dict.fromkeys(("CSS",), "/* {} */"),
    **dict.fromkeys(("SQL", "Lua", "Haskell"), "-- {}"),
    "INI": "; {}",
    "text": "{}",
    "CSV": "{}",
}  # fmt: skip
_PROGRAMS = {
    "Python": "print({single})\n",
    "JavaScript": "console.log({double});\n",
    "TypeScript": "const message: string = {double};\n\nconsole.log(message);\n",
    "JavaScript (React)": "export default function {Name}() {{\n  return <p>{text}</p>;\n}}\n",
    "TypeScript (React)": "export default function {Name}(): JSX.Element {{\n  return <p>{text}</p>;\n}}\n",
    "Dart": "void main() {{\n  print({dart});\n}}\n",
    "Go": 'package main\n\nimport "fmt"\n\nfunc main() {{\n\tfmt.Println({double})\n}}\n',
    "Rust": 'fn main() {{\n    println!("{{}}", {double});\n}}\n',
    "Java": "public class {Name} {{\n    public static void main(String[] args) {{\n"
    "        System.out.println({double});\n    }}\n}}\n",
    "Kotlin": "fun main() {{\n    println({double})\n}}\n",
    "C": "#include <stdio.h>\n\nint main(void) {{\n    puts({double});\n    return 0;\n}}\n",
    "C++": "#include <iostream>\n\nint main() {{\n    std::cout << {double} << '\\n';\n}}\n",
    "C#": "Console.WriteLine({double});\n",
    "Ruby": "puts {double}\n",
    "PHP": "<?php\n\necho {double} . PHP_EOL;\n",
    "Swift": "print({double})\n",
    "Scala": "@main def run(): Unit = println({double})\n",
    "Shell": "#!/usr/bin/env bash\nset -euo pipefail\n\necho {shell}\n",
    "Lua": "print({double})\n",
    "R": "cat({double}, '\\n')\n",
    "Elixir": "IO.puts({double})\n",
    "Haskell": "main :: IO ()\nmain = putStrLn {double}\n",
    "Perl": "use strict;\nuse warnings;\n\nprint {double}, \"\\n\";\n",
    "Julia": "println({double})\n",
    "HTML": '<!doctype html>\n<html lang="en">\n  <head>\n    <meta charset="utf-8" />\n'
    '    <title>{stem}</title>\n  </head>\n'
    "  <body>\n    <h1>{text}</h1>\n  </body>\n</html>\n",
    "Vue": "<template>\n  <p>{text}</p>\n</template>\n",
    "Svelte": "<p>{text}</p>\n",
    "CSS": "body {{\n  font-family: system-ui, sans-serif;\n  margin: 0;\n}}\n",
    "SCSS": "$gap: 1rem;\n\nbody {{\n  margin: $gap;\n}}\n",
    "Less": "@gap: 1rem;\n\nbody {{\n  margin: @gap;\n}}\n",
    "Markdown": "# {stem}\n\n{text}\n",
    "JSON": "{json}\n",
    "YAML": "name: {yaml}\nmessage: {double}\n",
    "TOML": "name = {stem_double}\nmessage = {double}\n",
    "INI": "[{stem}]\nmessage = {text}\n",
    "SQL": "CREATE TABLE IF NOT EXISTS {identifier} (\n  id INTEGER PRIMARY KEY,\n  name TEXT NOT NULL\n);\n",
    "XML": '<?xml version="1.0" encoding="UTF-8"?>\n<message>{text}</message>\n',
    "CSV": "id,name\n1,{identifier}\n",
    "GraphQL": "type Query {{\n  hello: String!\n}}\n",
    "Protocol Buffers": 'syntax = "proto3";\n\nmessage {Name} {{\n  string text = 1;\n}}\n',
    "Dockerfile": "FROM debian:stable-slim\nCMD [\"echo\", {double}]\n",
    "Makefile": "all:\n\t@echo {shell}\n\n.PHONY: all\n",
    "text": "{text}\n",
}  # fmt: skip


def comment(path: str, text: str) -> str:
    """`text` on one line as a comment of the file's language."""
    template = _COMMENTS.get(language_of(path), _SLASHES if extension(path) else _HASH)
    line = " ".join(text.split()).replace("*/", "* /")
    return template.format(line.replace("--", "- -") if template is _MARKUP else line)


def content_for(path: str, wanted: str, default_text: str = "hello") -> str:
    """A new file: `wanted` as it is, `print:X` as a program that prints X, nothing as a small working file."""
    if wanted and not wanted.startswith("print:"):
        return wanted if wanted.endswith("\n") else wanted + "\n"
    text = wanted.removeprefix("print:") or default_text
    program = _PROGRAMS.get(language_of(path))
    if program is None:
        return comment(path, text) + "\n"
    stem = re.sub(r"\.[^.]*$", "", path.replace("\\", "/").rsplit("/", 1)[-1]) or "file"
    words = re.findall(r"[A-Za-z0-9]+", stem)
    name = "".join(word[:1].upper() + word[1:] for word in words) or "Main"
    double = json.dumps(text, ensure_ascii=False)
    plain = "'" not in text and "\\" not in text and "$" not in text
    return program.format(
        text=text,
        double=double,
        single=repr(text),
        dart=f"'{text}'" if plain else double.replace("$", "\\$"),
        shell=f"'{text}'" if "'" not in text else double,
        json=json.dumps({"name": stem, "message": text}, ensure_ascii=False, indent=2),
        yaml=json.dumps(stem, ensure_ascii=False),
        stem_double=json.dumps(stem, ensure_ascii=False),
        stem=stem,
        Name=name if name[0].isalpha() else "Main" + name,
        identifier="_".join(words).lower() if words and words[0][0].isalpha() else "item",
    )


def changed(path: str, content: str, request: str) -> str:
    """`content` with a visible, harmless change that records `request`; valid JSON stays valid JSON."""
    note = " ".join(request.split())[:200]
    if language_of(path) == "JSON":
        try:
            value = json.loads(content)
        except ValueError:
            value = None
        if isinstance(value, dict):
            value["_note"] = note
            return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        if isinstance(value, list):
            return json.dumps([*value, {"_note": note}], ensure_ascii=False, indent=2) + "\n"
    newline = "\r\n" if "\r\n" in content else "\n"
    end = "" if not content or content.endswith("\n") else newline
    return content + end + comment(path, f"TODO: {note}") + newline


def tests_for(path: str, content: str, functions: tuple[str, ...]) -> tuple[str, str]:
    """(path, content) of a test file for `path` that names its functions."""
    folder, _, name = path.replace("\\", "/").rpartition("/")
    stem, _, ext = name.rpartition(".")
    language = language_of(path)
    names = functions[:10] or ("it_works",)
    prefix = f"{folder}/" if folder else ""
    if language == "Python":
        body = "\n\n".join(
            f"def test_{item.strip('_') or 'it'}():\n    assert True  # TODO: call {item}" for item in names
        )
        return f"{prefix}test_{stem}.py", body + "\n"
    if language.startswith(("JavaScript", "TypeScript")):
        body = "\n".join(f"  it('{item}', () => {{\n    // TODO: call {item}\n  }});" for item in names)
        return f"{prefix}{stem}.test.{ext}", f"describe('{stem}', () => {{\n{body}\n}});\n"
    if language == "Dart":
        body = "\n".join(f"  test('{item}', () {{\n    // TODO: call {item}\n  }});" for item in names)
        return f"{prefix}{stem}_test.dart", f"import 'package:test/test.dart';\n\nvoid main() {{\n{body}\n}}\n"
    if language == "Go":
        package = match[1] if (match := re.search(r"^package\s+(\w+)", content, re.MULTILINE)) else "main"
        body = "\n\n".join(
            f"func Test{item[:1].upper()}{item[1:]}(t *testing.T) {{\n\t// TODO: call {item}\n}}" for item in names
        )
        return f"{prefix}{stem}_test.go", f'package {package}\n\nimport "testing"\n\n{body}\n'
    target = f"{prefix}{stem}_test.{ext}" if ext else f"{prefix}{name}_test"
    return target, "\n".join(comment(target, f"TODO: test {item}") for item in names) + "\n"


_SORTS = {
    "Python": 'def sort_items(items):\n    """A sorted copy of items."""\n    return sorted(items)',
    "JavaScript": "function sortItems(items) {\n  return [...items].sort((a, b) => (a > b) - (a < b));\n}",
    "TypeScript": "function sortItems(items: number[]): number[] {\n  return [...items].sort((a, b) => a - b);\n}",
    "Dart": "List<T> sortItems<T extends Comparable>(List<T> items) => [...items]..sort();",
    "Go": "func sortItems(items []int) []int {\n\tsorted := append([]int(nil), items...)\n"
    "\tsort.Ints(sorted)\n\treturn sorted\n}",
}
_BARE = {
    "Python": "def solve(value):\n    # TODO: {}\n    return value",
    "JavaScript": "function solve(value) {{\n  // TODO: {}\n  return value;\n}}",
    "TypeScript": "function solve<T>(value: T): T {{\n  // TODO: {}\n  return value;\n}}",
    "Dart": "T solve<T>(T value) {{\n  // TODO: {}\n  return value;\n}}",
    "Go": "func solve(value any) any {{\n\t// TODO: {}\n\treturn value\n}}",
}


def snippet(request: str) -> tuple[str, str]:
    """(language, code) for "write a function that…" without a file; Python unless another language is named."""
    named = {
        "javascript": "JavaScript",
        "js": "JavaScript",
        "typescript": "TypeScript",
        "dart": "Dart",
        "go": "Go",
        "golang": "Go",
    }
    language = next((named[word] for word in re.findall(r"[a-z]+", request.lower()) if word in named), "Python")
    if re.search(r"сортир|\bsort", request, re.IGNORECASE):
        return language, _SORTS[language]
    return language, _BARE[language].format(" ".join(request.split())[:120])
