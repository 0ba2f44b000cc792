"""Which paths a glob matches, and how fast."""

import time

import pytest
from codelab.protocol.globs import matches

from tests.cases import cases


@cases(
    ("glob", "path"),
    [
        ("*.md", "README.md"),
        ("*.md", "docs/deep/a.md"),
        ("README.md", "docs/README.md"),
        ("docs/*.md", "docs/a.md"),
        ("docs/**", "docs/a"),
        ("docs/**", "docs/a/b/c.md"),
        ("docs/**/a.md", "docs/a.md"),
        ("docs/**/a.md", "docs/b/c/a.md"),
        ("**/a.md", "a.md"),
        ("**/a.md", "b/a.md"),
        ("/docs/*", "docs/a"),
        ("docs/*", "./docs//a"),
        ("docs/*", "docs\\a"),
        ("a?.py", "src/ab.py"),
        ("a*b*c", "a-b-b-c"),
        ("src/**/test_*.py", "src/x/y/test_a.py"),
        ("**", "a/b"),
        ("[ab].py", "[ab].py"),
    ],
)
def test_matches(glob: str, path: str) -> None:
    assert matches(glob, path)


@cases(
    ("glob", "path"),
    [
        ("*.md", "README.MD"),
        ("*.md", "a.md/b"),
        ("docs/*.md", "docs/deep/a.md"),
        ("docs/*.md", "other/docs/a.md"),
        ("docs/**", "docs"),
        ("docs/**", "documents/a"),
        ("docs/a", "docs"),
        ("a?.py", "a.py"),
        ("a?b", "a/b"),
        ("a*b", "a/b"),
        ("[ab].py", "a.py"),
        ("*", "."),
    ],
)
def test_does_not_match(glob: str, path: str) -> None:
    assert not matches(glob, path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [("*a" * 120 + "b", "a" * 255), ("**/a/" * 50 + "b", "a/" * 127 + "c"), ("**/*a*a*a*a*a*a*b/" * 8, "a" * 255)],
)
def test_matching_never_takes_exponential_time(glob: str, path: str) -> None:
    began = time.process_time()
    assert not matches(glob, path)
    assert time.process_time() - began < 1
