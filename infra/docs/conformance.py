"""Checks docs/conformance.md, which maps the seed documents' requirements, and the extensions, to code and tests.

`python -m infra.docs.conformance` (and `make lint`) checks that every place and test on the page exists, and that every
frame, tool and error code has a row. With `--run` it also runs the tests; all must pass, and none may be skipped.
"""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from codelab.protocol.errors import ALIASES, ErrorCode
from codelab.protocol.tools import CATALOGUE

from infra.docs.schemas import client_models, server_models

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/conformance.md"

#: The heads of tables. Places are names below `codelab` or paths in the repository; tests are paths below `tests/`.
HEAD = ["what the document says", "where", "test"]
HEAD_OF_EXTENSIONS = ["what", "where", "test"]
#: Marks a requirement that is not implemented; the reason follows.
NOT = "not implemented: "

_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """A row of the page: the requirement, its places and tests, and the reason if it is not implemented."""

    line: int
    said: str
    places: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str = ""


def rows(text: str) -> Iterator[Row]:
    """The rows of all tables that begin with one of the heads."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells in (HEAD, HEAD_OF_EXTENSIONS):
            inside = True
        elif inside and not set(line) <= set("|-"):
            said, where, test = cells
            reason = where.removeprefix(NOT) if where.startswith(NOT) else ""
            places = () if reason else tuple(_CODE.findall(where))
            yield Row(number, said, places, tuple(f"tests/{name}" for name in _CODE.findall(test)), reason)


def problems(text: str) -> list[str]:
    """The page's problems, one line each."""
    found = list(rows(text))
    wrong = [] if found else ["there is no table"]
    for row in found:
        if not row.reason:
            wrong += [f"line {row.line}: no such place: {place}" for place in row.places if not _is_place(place)]
            wrong += [f"line {row.line}: no {kind}" for kind in ("places", "tests") if not getattr(row, kind)]
        wrong += [f"line {row.line}: no such test: {test}" for test in row.tests if not is_test(test)]
    said = {word for row in found for word in _CODE.findall(row.said)}
    said |= {word.partition(".")[0] for word in said}
    must = {*(code.value for code in ErrorCode), *ALIASES, *CATALOGUE, *client_models(), *server_models()}
    return [*wrong, *(f"no row is about {name}" for name in sorted(must - said))]


def tests() -> list[str]:
    """The pytest ids of all tests on the page."""
    return sorted({test for row in rows(PAGE.read_text(encoding="utf-8")) for test in row.tests})


def _is_place(name: str) -> bool:
    path = name.partition("::")[0]
    if "/" in path or (ROOT / path).exists():
        return (ROOT / path).exists() and ("::" not in name or name.partition("::")[2] in _definitions(ROOT / path))
    parts = f"codelab.{name}".split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return all((found := _member(found, part)) is not None for part in parts[length:])
    return False


def _member(owner: Any, name: str) -> Any:
    return (
        getattr(owner, name, None)
        or getattr(owner, "model_fields", {}).get(name)
        or getattr(owner, "__dataclass_fields__", {}).get(name)
    )


def is_test(test: str) -> bool:
    """Whether a test of this pytest id is defined, whatever its parameters. A table of cases is one test without."""
    path, _, name = test.partition("::")
    function, has_parameters, _ = name.partition("[")
    is_defined = (ROOT / path).is_file() and function in _definitions(ROOT / path)
    return is_defined and not (has_parameters and function in _tables(ROOT / path))


@cache
def _definitions(path: Path) -> frozenset[str]:
    """The classes and functions of a Python file, methods as `Class::method`; empty for other files."""
    if path.suffix != ".py":
        return frozenset()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return frozenset(found)


@cache
def _tables(path: Path) -> frozenset[str]:
    """The functions of a Python file that go through a table of cases themselves (`tests/cases.py`)."""
    functions = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    calls = {node.name: [it.func for it in node.decorator_list if isinstance(it, ast.Call)] for node in functions}
    return frozenset(
        name for name, names in calls.items() if any(isinstance(it, ast.Name) and it.id == "cases" for it in names)
    )


def main(arguments: Sequence[str]) -> int:
    wrong = problems(PAGE.read_text(encoding="utf-8"))
    sys.stderr.writelines(f"docs/conformance.md: {problem}\n" for problem in wrong)
    if wrong or "--run" not in arguments:
        return int(bool(wrong))
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "infra.docs.outcomes", "-m", "deep or not deep"]
    return subprocess.call([*pytest, *tests()], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
