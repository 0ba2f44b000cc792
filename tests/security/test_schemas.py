"""Clients' schemas that try to hang or crash the system."""

import gc
import json
import sys
import time
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from codelab.llm.caller import CallerBounds
from codelab.llm.client.bare import parse_bare
from codelab.llm.errors import InvalidRequest
from codelab.llm.schema.bounded import BoundedValidator, Verdict
from codelab.llm.schema.codec import make_codec
from codelab.llm.schema.compiled import CompiledSchema
from codelab.llm.schema.validation import compile_validator
from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import parse_frame
from codelab.protocol.tools.declared import declared_tool

from tests.cases import cases
from tests.processes import run
from tests.turns.world import refusal

BOUNDS = CallerBounds(frozenset({"m"}), "openai", 1_000_000)
Schema = dict[str, Any]

#: The limits per schema: seconds of CPU, and megabytes of the process after all earlier ones.
_SECONDS, _MEGABYTES = 1.0, 300.0


def took(start: float) -> float:
    return time.process_time() - start


def doubling(keyword: str, depth: int) -> Schema:
    """Each definition uses the next one twice, for the same value."""
    twice = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{depth}": {"type": "integer"}}}


def parse(schema: Any, *context: Any) -> None:
    """Parse a bare Request with the schema."""
    request = {"context": [{"role": "user", "content": "x"}, *context], "schema": schema, "config": {"model": "m"}}
    parse_bare(request, bounds=BOUNDS)


def refused(schema: Any) -> str:
    """The place in the error for the schema in a bare Request."""
    started = time.process_time()
    with pytest.raises(InvalidRequest) as caught:
        parse(schema)
    assert took(started) < _SECONDS
    return caught.value.pointer


# Patterns.


def test_a_declared_tools_pattern_properties_cannot_hang_a_step() -> None:
    parameters = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}}
    tool = declared_tool({"name": "t", "description": "d", "parameters": parameters, "read_only": False})
    codec = make_codec(tool.parameters)
    started = time.process_time()
    entries = [{"key": "a" * 40 + "!", "value": "x"}, {"key": "a" * 5_000 + "!", "value": "x"}]
    assert codec.is_wrapped
    assert codec.decode({"value": entries}) == {entry["key"]: "x" for entry in entries}
    tool.check({"a" * 5_000 + "!": "x"})
    assert took(started) < _SECONDS


@cases(
    ("schema", "place"),
    [
        ({"properties": {"a": {"pattern": "(?=(a+)+$)b"}}}, "/schema/properties/a/pattern"),
        ({"properties": {"a": {"pattern": "(a+)\\1"}}}, "/schema/properties/a/pattern"),
        ({"items": {"patternProperties": {"^(?!x)~/": {}}}}, "/schema/items/patternProperties/^(?!x)~0~1"),
        ({"propertyNames": {"pattern": "(?<=a)b"}}, "/schema/propertyNames/pattern"),
        ({"pattern": "((a{0,99}){0,99}){0,99}"}, "/schema/pattern"),
        ({"pattern": "a" * 5_000}, "/schema/pattern"),
    ],
)
def test_patterns_without_linear_time_are_refused_with_their_place(schema: Schema, place: str) -> None:
    assert refused(schema) == place


# Places.


def nested(depth: int) -> Schema:
    return {"items": nested(depth - 1)} if depth else {"type": "string"}


TOO_MUCH: dict[str, tuple[Schema, str]] = {
    "patterns": ({"patternProperties": {f"^a{n}$": {} for n in range(1_000)}}, "/schema/patternProperties"),
    **{f"doubling {keyword}": (doubling(keyword, 30), "/schema/$defs/d") for keyword in ("anyOf", "allOf", "oneOf")},
    "an enumeration": ({"enum": list(range(20_000))}, "/schema"),
    "properties": ({"properties": {f"p{n}": {"type": "string"} for n in range(30_000)}}, "/schema"),
    "a long text": ({"default": "x" * 300_000}, "/schema"),
    "a union": ({"anyOf": [{"const": n} for n in range(2_000)]}, "/schema"),
    "a chain": ({"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2_000)}
                 | {"d2000": {}}}, "/schema"),
    "levels": (nested(300), "/schema/items/items"),
    # These apply themselves to the same value: a few hundred bytes took seconds to compile.
    "itself": ({"$ref": "#"}, "/schema"),
    "its own contrary": ({"allOf": [{"not": {"$ref": "#"}}]}, "/schema"),
    "each other": ({"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{m % 2}"}
                    for m in range(12)]} for n in range(2)}}, "/schema"),
}  # fmt: skip


@cases(("schema", "place"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_too_large_schemas_are_refused_with_their_place(schema: Schema, place: str) -> None:
    assert refused(schema).startswith(place)


@pytest.mark.parametrize("keyword", ["anyOf", *(pytest.param(it, marks=pytest.mark.deep) for it in ("allOf", "oneOf"))])
def test_the_codec_itself_limits_doubling_references(keyword: str) -> None:
    """For the program's own schemas, which have no budget: in a process with 2 GB, within two minutes."""
    code = f"""
import json, resource, time
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from codelab.llm.schema.codec import make_codec
from tests.security.schema_worker import peak_megabytes
branches = lambda n: [{{"$ref": f"#/$defs/d{{n + 1}}", "title": str(m)}} for m in range(2)]
twice = {{f"d{{n}}": {{"{keyword}": branches(n)}} for n in range(24)}}
schema = {{"$ref": "#/$defs/d0", "$defs": {{**twice, "d24": {{"type": "integer"}}}}}}
started = time.process_time()
json.dumps(make_codec(schema).schema)
print(time.process_time() - started, peak_megabytes())
"""
    done = run(sys.executable, "-c", code, timeout=120, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < _SECONDS
    assert megabytes < _MEGABYTES


def test_a_schema_in_a_message_has_the_same_budget() -> None:
    """A content of type `tool` contains a schema."""
    tool = {"type": "tool", "name": "t", "parameters": {"properties": {"a": {"pattern": "(?=a)"}}}}
    with pytest.raises(InvalidRequest, match="linear time"):
        parse({"type": "object"}, tool)


def test_invalid_declared_tools_are_refused_with_the_place() -> None:
    definitions = doubling("anyOf", 20)["$defs"]
    parameters = {"properties": {"a": definitions["d0"]}, "$defs": definitions}
    tool = {"name": "t", "description": "d", "parameters": parameters}
    error = refusal(lambda: parse_frame(json.dumps({"type": "hello", "capabilities": {"tools": [tool]}})))
    assert error.code is ErrorCode.INVALID_ARGUMENTS
    assert "/$defs/d" in error.message


def test_recursive_and_other_honest_schemas_are_accepted() -> None:
    tree = {"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "name": {"pattern": "^[a-z]{1,64}$"}}}
    wide = {"properties": {f"p{n}": {"enum": [f"value {m}" for m in range(30)]} for n in range(300)}}
    for schema in (tree, wide):
        parse(schema)


# Answers.


def tower(depth: int) -> Any:
    node: Any = "s"
    for _ in range(depth):
        node = {"a": node, "b": 1, "c": 1}
    return node


def test_answers_that_are_expensive_to_validate_are_refused() -> None:
    """Two branches check the same part on each of forty levels, in different definitions."""
    levels: Schema = {
        f"t{n}": {"anyOf": [{"type": "object", "properties": {"a": {"$ref": f"#/$defs/t{n + 1}"}}, "required": [key]}
                            for key in "bc"]}
        for n in range(40)
    }  # fmt: skip
    schema = {"$ref": "#/$defs/t0", "$defs": {**levels, "t40": {"type": "integer"}}}
    judge = BoundedValidator(schema, compile_validator(schema))
    started = time.process_time()
    assert judge.verdict(tower(39)) is Verdict.TOO_MUCH
    make_codec(schema).decode(tower(39))
    assert took(started) < _SECONDS


def test_an_answer_full_of_errors_gets_a_short_error() -> None:
    plan = CompiledSchema({"items": {"anyOf": [{"type": "null"}] * 50}, "allOf": [{"minItems": 10**9}] * 500}, "close")
    started = time.process_time()
    assert len(plan.explain(["a"] * 20_000)) == 1
    assert took(started) < _SECONDS


def test_an_endlessly_nested_answer_does_not_crash() -> None:
    node: Any = 1
    for _ in range(900):
        node = [node]
    plan = CompiledSchema({"type": "array", "items": {"$ref": "#"}}, "close")
    assert plan.explain(plan.codec().decode(node))


def test_errors_in_answers_of_usual_size_are_reported() -> None:
    branches = [
        {"properties": {"_tool": {"const": f"t{n}"}, "path": {"type": "string"}}, "required": ["_tool", "path"]}
        for n in range(25)
    ]
    plan = CompiledSchema({"properties": {"calls": {"type": "array", "items": {"anyOf": branches}}}}, "close")
    calls = [{"_tool": "t1", "path": "a"}] * 7 + [{"_tool": "t3", "path": 5}]
    assert plan.explain({"calls": calls}) == ['/calls/7/path: 5 is not of type "string"']


def test_invalid_answers_leave_nothing_in_memory() -> None:
    class Part(dict[str, Any]):
        """A part of an answer that can be observed."""

    codec = make_codec({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    part = Part(a="no integer")
    watched = weakref.ref(part)
    codec.decode(part)
    del part
    gc.collect()
    assert watched() is None


# Generated schemas.


def met(first: int, count: int) -> tuple[list[Any], int]:
    """The outcomes of these seeds' hostile schemas, and how many killed their process."""
    rows: list[Any] = []
    crashes = 0
    end = first + count
    while first < end:
        worker = "tests.security.schema_worker"
        done = run(sys.executable, "-m", worker, str(first), str(end - first), timeout=None)
        rows += map(json.loads, done.stdout.splitlines())
        if done.returncode == 0:
            break
        crashes += 1
        sys.stderr.write(done.stderr[-2_000:])
        first = (rows[-1][0] if rows else first) + 2
    return rows, crashes


def judge(rows: Iterable[Any], crashes: int) -> None:
    found = list(rows)
    schemas = {row[0] for row in found}
    refusals = {(row[0], row[2]) for row in found if row[3] == "refused"}
    uses = {(row[0], row[2]) for row in found}
    slow = [row for row in found if row[4] > _SECONDS]
    large = [row for row in found if row[5] > _MEGABYTES]
    sys.stdout.write(
        f"\n{len(schemas)} schemas, each as a Request's and as a tool's: {len(uses) - len(refusals)} accepted, "
        f"{len(refusals)} refused; {len(found)} answers to them; {len(slow)} slower than {_SECONDS:g} s "
        f"(slowest {max(row[4] for row in found):.2f} s), {len(large)} over {_MEGABYTES:g} MB "
        f"(most {max(row[5] for row in found):g} MB), {crashes} crashes\n"
    )
    assert len(uses) > len(refusals) > 0
    assert (slow, large, crashes) == ([], [], 0)


def test_a_sample_of_hostile_schemas_is_answered_or_refused_in_time() -> None:
    judge(*met(0, 12))


@pytest.mark.deep
def test_ten_thousand_hostile_schemas_are_answered_or_refused_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        parts = list(pool.map(lambda first: met(first, 200), range(0, 10_000, 200)))
    with capsys.disabled():
        judge((row for rows, _ in parts for row in rows), sum(crashes for _, crashes in parts))
