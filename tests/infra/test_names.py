"""`infra.names` counts the names that are bare participles or pronouns, and `make lint` fails above a tree's limit."""

import ast
from pathlib import Path

import pytest

from infra import names
from tests.cases import cases

_SOURCE = """
import asyncio
from dataclasses import dataclass

@dataclass
class Search:
    told: str
    closed: bool = False
    CLOSED = "closed"

    def __eq__(self, other: object) -> bool:
        return False

    def start(self, settled: bool) -> None:
        self._asked = self.path = ""
        self._held, self._ended = [], False
        self._settled = settled
        self.counted: bool = not settled
        self._lost = None
        error.cause.shown = self._told.unread = 1

    def stop(self) -> None:
        self._ended = self._settled = self.counted = bool(self._asked)

def look(given, *rest, enabled: bool = True, path=None, **others):
    found = [one for one in given if one]
    found_paths, expected, seed = found, 1, 2
    done = False
    with path as opened:
        pass
    try:
        for chosen in rest:
            _left = chosen
    except OSError as refused:
        pass
    match given:
        case [first, *both]:
            pass
    if (made := path):
        pass
"""


def test_each_kind_of_binding_is_counted_and_what_the_field_calls_so_is_not() -> None:
    bound = list(names.bindings(ast.parse(_SOURCE)))
    hits = {binding.name for binding in bound if names.is_bare(binding.name) and not binding.exempt}
    assert hits == {
        "told",
        "given",
        "rest",
        "others",
        "found",
        "one",
        "opened",
        "chosen",
        "_left",
        "refused",
        "both",
        "made",
        "_asked",
        "_held",
        "_lost",
    }
    assert not {"self", "asyncio", "Search", "look"} & {binding.name for binding in bound}


@cases("name", ["found", "_told", "one", "read", "began", "unwanted", "offered", "rest_"])
def test_a_bare_word_is_refused(name: str) -> None:
    assert names.is_bare(name)


@cases("name", ["path", "found_path", "seed", "need", "ed", "parsed", "CLOSED", "Answered", "__all__", "threads"])
def test_a_noun_or_a_term_of_the_field_is_not(name: str) -> None:
    assert not names.is_bare(name)


def test_a_flag_of_one_class_is_no_flag_in_another() -> None:
    classes = (
        "class A:\n    def f(self):\n        self.done = False",
        "class B:\n    def f(self):\n        self.done = 'soon'",
    )
    source = "\n".join(classes)
    assert [binding.exempt for binding in names.bindings(ast.parse(source))] == [True, False]


def test_a_tree_above_its_limit_fails_with_the_place_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "module.py").write_text("path = 1\nfound = 2\n")
    monkeypatch.setattr(names, "_ROOT", tmp_path)
    monkeypatch.setattr(names, "LIMITS", {("tree",): 50.0})
    assert names.main([]) == 0
    monkeypatch.setattr(names, "LIMITS", {("tree",): 49.9})
    assert names.main([]) == 1
    printed = capsys.readouterr()
    assert f"{tmp_path / 'tree' / 'module.py'}:2: found\n" in printed.err
    assert "tree: 1 of 2 names are bare participles or pronouns, 50.00 %: found 1\n" in printed.out


def test_a_tree_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="absent"):
        names.main([str(tmp_path / "absent")])
