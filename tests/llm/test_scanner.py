"""The incremental scanner, compared with jiter and with cuts that hypothesis chooses."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jiter
from codelab.llm.outcome import ItemDone, TextDelta
from codelab.llm.scanner import Scanner
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.llm.instances import Maker


def scan(
    pieces: list[str], *fields: tuple[str | int, ...], items: tuple[str, ...] | None = ("calls",), prose: bool = False
) -> Any:
    """The text of each field, the items, and whether the root is closed."""
    scanner = Scanner(fields or [("message",)], items, prose=prose)
    texts: dict[str, str] = {}
    found: list[Any] = []
    for piece in pieces:
        for event in scanner.feed(piece):
            if isinstance(event, TextDelta):
                texts[event.field] = texts.get(event.field, "") + event.text
            else:
                assert isinstance(event, ItemDone)
                assert event.index == len(found)
                found.append(event.value)
    return texts, found, scanner.complete


def cut(text: str, rng: random.Random) -> list[str]:
    """Cut anywhere, even between the halves of a surrogate pair, like proxies written in JavaScript."""
    units = text.encode("utf-16-le")
    points = sorted({0, len(units) // 2, *(rng.randrange(len(units) // 2 + 1) for _ in range(rng.randrange(1, 30)))})
    return [units[2 * a : 2 * b].decode("utf-16-le", "surrogatepass") for a, b in itertools.pairwise(points)]


def test_it_agrees_with_jiter_at_20000_random_cuts() -> None:
    rng = random.Random(20)
    maker = Maker(True, rng)
    cuts = 0
    while cuts < 20_000:
        value = {
            "before": maker.anything(0),
            "message": "".join(
                rng.choice(("abc ", '"', "\\", "\n", "é", "漢", "😀", "}", "\u2028")) for _ in range(30)
            ),
            "calls": [maker.anything(0) for _ in range(rng.randrange(4))],
            "inner": {"message": "not this one", "calls": [1]},
        }
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
        expected = jiter.from_json(text.encode())
        pieces = cut(text, rng)
        cuts += len(pieces) - 1
        texts, items, complete = scan(pieces)
        assert texts == {"message": expected["message"]}, pieces
        assert items == expected["calls"], pieces
        assert complete


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(), st.lists(_json, max_size=4), _json, st.booleans(), st.randoms(use_true_random=False))
def test_fields_are_found_in_any_json(
    message: str, calls: list[Any], other: Any, escaped: bool, rng: random.Random
) -> None:
    text = json.dumps({"x": other, "calls": calls, "message": message}, ensure_ascii=escaped)
    texts, items, complete = scan(cut(text, rng))
    assert texts.get("message", "") == message
    assert items == calls
    assert complete


@cases("size", [1, 2, 3, 5, 1000])
def test_all_escapes_are_decoded(size: int) -> None:
    text = r'{"message": "\"\\\/\b\f\n\r\té\ud83d\ude00 \ud83d x \ude00", "calls": []}'
    texts, _, _ = scan([text[at : at + size] for at in range(0, len(text), size)])
    assert texts["message"] == '"\\/\b\f\n\r\té😀 \ufffd x \ufffd'


def test_a_delta_comes_with_its_characters() -> None:
    scanner = Scanner([("message",)])
    assert scanner.feed('{"mess') == []
    assert scanner.feed('age": "He') == [TextDelta("message", "He")]
    assert scanner.feed("llo") == [TextDelta("message", "llo")]
    assert scanner.feed("\\") == []
    assert scanner.feed("n!") == [TextDelta("message", "\n!")]
    assert scanner.feed('", "calls": [{"a": 1') == []


def test_an_item_comes_with_its_last_character() -> None:
    scanner = Scanner([], ("calls",))
    assert scanner.feed('{"calls": [{"a": {"b": "}"}') == []
    assert scanner.feed("}") == [ItemDone(0, {"a": {"b": "}"}})]
    assert scanner.feed(", 1") == []
    assert scanner.feed("2,") == [ItemDone(1, 12)]
    assert scanner.feed('"x", [1], null ]}') == [ItemDone(2, "x"), ItemDone(3, [1]), ItemDone(4, None)]


def test_nested_fields_and_wildcards_are_found() -> None:
    text = '{"plan": {"summary": "S"}, "steps": [{"text": "a"}, {"text": "b"}], "text": "c"}'
    texts, _, _ = scan(list(text), ("plan", "summary"), ("steps", "*", "text"), items=None)
    assert texts == {"plan.summary": "S", "steps.0.text": "a", "steps.1.text": "b"}


@cases(
    ("before", "after"),
    [
        ("", ""),
        ("Sure! Here is {it}:\n```json\n", "\n```\nAnything else?"),
        ("\n  ", "\n"),
    ],
)
@cases("size", [1, 4, 999])
def test_prose_around_the_object_is_skipped(before: str, after: str, size: int) -> None:
    text = before + '{ "message": "yes", "calls": [{"a": 1}]}' + after
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert scan(pieces, prose=True) == ({"message": "yes"}, [{"a": 1}], True)


def test_invalid_json_raises_nothing() -> None:
    for text in ("]]}}", '{"message": 5, "calls": 7}', '{"calls": [}, {]', "no json at all", '{"message": "open'):
        scan(list(text))


def test_the_scanner_keeps_no_text() -> None:
    """Its cost is linear because it never looks back."""
    scanner = Scanner([("message",)], ("calls",))
    scanner.feed('{"message": "')
    for _ in range(1000):
        scanner.feed("abcd")
        assert not scanner._parts
        assert not scanner._carry
