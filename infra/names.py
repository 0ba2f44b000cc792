"""Counts the variables, arguments and attributes whose name is a bare participle or pronoun.

`python -m infra.names [--list] [PATH…]`; --list prints the file and line of each.

A name says what the value is: `path`, `session`, `matches`. A bare `found`, `told`, `given`, `one` or `rest` leaves the
reader to find out, in the case of `self._found` the reader of another method. Only whole names count (`found_paths` is
fine), and these do not:

- flags, which are adjectives by nature: annotated `bool`, or bound to True or False (`closed = False`); an attribute
  that is so anywhere in its class, or takes an argument annotated `bool`, is one everywhere in it;
- the words of the field for the result of an operation or for a state (`parsed`, `expected`);
- constants (`CLOSED = "closed"`), types, and `other` in methods such as `__eq__`.

Without paths it checks the trees of `LIMITS`, and the exit status is 1 if one is above its limit. Needs only the
standard library.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parent.parent

# The highest share in percent that each group of trees may have.
LIMITS: dict[tuple[str, ...], float] = {
    ("layers", "functions"): 0.5,
    ("clients/codelab_client",): 0.5,
    ("local",): 0.5,
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PRONOUNS_AND_QUANTIFIERS = _words(
    """all another any anyone anything both each either enough every everyone everything few fewer fewest half hers
    his how it its least less many mine more most much neither no nobody none nothing one ones other others ours
    plenty rest same several some somebody someone something such that theirs them these they this those what
    whatever when where which who whom whose why yours"""
)
# With the past tenses that differ from the participle. Words that are nouns as well are left out: bound, cost, cut,
# hit, put, run, set, split, spread, thought.
_IRREGULAR = _words(
    """beaten became become been began begun bent bitten blown born bought bred broke broken brought built burnt
    came caught chose chosen come crept dealt did done drawn drew driven drove drunk dug eaten fallen fed fell
    felt flown forbidden forgiven forgot forgotten fought found frozen gave given gone got gotten grew grown had
    heard held hid hidden hung kept knew known laid lain learnt led left lent lit lost made meant met mistaken
    outgrown overridden overrode paid proven ran read rebuilt redone resent rewritten ridden risen rose said
    sang sat saw seen sent sewn shaken shook shot shown shrunk slept sold sought spelt spent spoke spoken spun
    stole stolen stood struck stuck sung sunk swept sworn swung taken taught thrown told took torn understood
    undid undone unknown unread unseen unsent unset unspoken untold unwritten upheld was went withdrawn withheld
    woke woken won worn woven written wrote"""
)
_TERMS = _words(
    """allowed cached compiled compressed decoded deprecated elapsed enabled encoded escaped expanded expected
    filtered formatted indented joined merged modified nested normalized packed parsed patched queued quoted
    rendered required resolved sanitized serialized signed sorted staged stripped supported translated truncated
    unified unsupported untracked validated wrapped"""
)
_NOUNS_IN_ED = _words(
    """bed bleed breed creed deed embed exceed feed greed hundred indeed kindred need newsfeed proceed red reed
    screed seed shed shred sled speed steed succeed watershed weed"""
)


class Binding(NamedTuple):
    name: str
    line: int
    exempt: bool


class Count(NamedTuple):
    """How many names a tree binds, and (file, line, name) of each that is a bare participle or pronoun."""

    bindings: int
    hits: list[tuple[Path, int, str]]

    @property
    def percent(self) -> float:
        return 100 * len(self.hits) / self.bindings if self.bindings else 0.0


def is_bare(name: str) -> bool:
    """Whether the whole of `name`, without underscores around it, is a participle, a past tense or a pronoun."""
    word = name.strip("_")
    if not word.islower() or name.startswith("__") or word in _TERMS:
        return False
    if word in _PRONOUNS_AND_QUANTIFIERS or word in _IRREGULAR:
        return True
    return word.isalpha() and word.endswith("ed") and len(word) > 3 and word not in _NOUNS_IN_ED


def bindings(tree: ast.AST) -> Iterator[Binding]:
    """Every binding of a variable, an argument, a field or an attribute of `self`; `self` and `cls` do not count."""
    exempt = {id(node) for parent in ast.walk(tree) for node in _exempt(parent)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name not in ("self", "cls"):
                yield Binding(name, node.lineno, id(node) in exempt)
            case ast.Attribute(attr=name, ctx=ast.Store()) if _is_own(node):
                yield Binding(name, node.lineno, id(node) in exempt)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield Binding(name, node.lineno, False)


def _exempt(node: ast.AST) -> list[ast.AST]:
    """The names that `node` binds and that may be adjectives: its flags, and the operand of a special method."""
    match node:
        case ast.AnnAssign(target=target, annotation=annotation) if _is_bool(annotation):
            return [target]
        case ast.arg(annotation=annotation) if _is_bool(annotation):
            return [node]
        case ast.Assign(targets=targets, value=ast.Constant(value=bool())):
            return list(targets)
        case ast.FunctionDef(name=name, args=ast.arguments(args=[_self, ast.arg(arg="other") as operand])) if (
            name.startswith("__")
        ):
            return [operand]
        case ast.ClassDef():
            flags = set(_flags(node))
            return [child for child in ast.walk(node) if isinstance(child, ast.Attribute) and child.attr in flags]
    return []


def _flags(tree: ast.ClassDef) -> Iterator[str]:
    """The names of the class's attributes and fields that are flags."""
    flag_arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and _is_bool(node.annotation)}
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name) | ast.Name(id=name), annotation=annotation) if _is_bool(
                annotation
            ):
                yield name
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for attribute, attribute_value in _pairs(target, value):
                        match attribute_value:
                            case ast.Constant(value=bool()):
                                yield attribute.attr
                            case ast.Name(id=argument) if argument in flag_arguments:
                                yield attribute.attr


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """The attributes that an assignment binds, each with its value: `self.a, self.b = 1, 2` binds two."""
    match target, value:
        case ast.Attribute(), _:
            yield target, value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for each_target, each_value in zip(targets, values, strict=True):
                yield from _pairs(each_target, each_value)


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_bool(annotation: ast.AST | None) -> bool:
    return annotation is not None and ast.unparse(annotation) in ("bool", "bool | None")


def count(paths: Iterable[Path]) -> Count:
    """Counts the Python files at and below `paths`."""
    total, hits = 0, []
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for binding in bindings(ast.parse(file.read_text(encoding="utf-8"), str(file))):
                total += 1
                if is_bare(binding.name) and not binding.exempt:
                    hits.append((file, binding.line, binding.name))
    return Count(total, hits)


def _summary(label: str, tree: Count) -> str:
    frequent = Counter(name for _file, _line, name in tree.hits).most_common(25)
    names = ", ".join(f"{name} {times}" for name, times in frequent)
    share = f"{len(tree.hits)} of {tree.bindings} names are bare participles or pronouns, {tree.percent:.2f} %"
    return f"{label}: {share}: {names}\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Counts names that are bare participles, pronouns or quantifiers.")
    parser.add_argument("--list", action="store_true", help="print file, line and name of each")
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    groups: dict[tuple[str, ...], float] = {(str(path),): 100.0 for path in options.paths} or LIMITS
    base = Path() if options.paths else _ROOT
    if absent := [str(base / tree) for trees in groups for tree in trees if not (base / tree).exists()]:
        sys.exit(f"No such file or folder: {', '.join(absent)}")
    failed = False
    for trees, limit in groups.items():
        names = count(base / tree for tree in trees)
        too_many = names.percent > limit
        failed |= too_many
        if options.list or too_many:
            (sys.stderr if too_many else sys.stdout).writelines(
                f"{file}:{line}: {name}\n" for file, line, name in names.hits
            )
        sys.stdout.write(_summary(" ".join(trees), names))
        if too_many:
            sys.stderr.write(f"{' '.join(trees)}: at most {limit} % may be bare participles or pronouns\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
