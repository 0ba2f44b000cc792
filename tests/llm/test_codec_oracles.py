"""Strict schemas in llguidance, an independent engine that constrains real models by such schemas."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from codelab.llm.schema.codec import Codec, make_codec
from codelab.llm.schema.validation import compile_validator

from benchmarks.llm_codec import Sampler
from tests.llm.encoder import NotEncodable, encode
from tests.llm.instances import Maker
from tests.llm.schemas import Schemas, special


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler(seed=5)


def consumes(sampler: Sampler, codec: Codec, strict: Any) -> bool:
    """Whether a model constrained by the schema could write the instance."""
    matcher = sampler.compile(codec.schema)
    assert not isinstance(matcher, str), matcher
    text = json.dumps(strict, ensure_ascii=False, separators=(",", ":")).encode()
    return bool(matcher.try_consume_tokens(list(text)) == len(text) and matcher.is_accepting())


def consumed(sampler: Sampler, codec: Codec, instances: list[Any]) -> list[bool]:
    """Of each instance that has a strict form: whether a model constrained by the schema could write it."""
    found = []
    for instance in instances:
        with contextlib.suppress(NotEncodable):
            found.append(consumes(sampler, codec, encode(codec, instance)))
    return found


def test_real_schemas_compile_and_their_instances_are_consumed(rows: list[dict[str, Any]], sampler: Sampler) -> None:
    found: list[bool] = []
    for row in rows if len(rows) < 1_000 else rows[::3]:  # a third of thousands
        found += consumed(sampler, make_codec(row["schema"]), row["valid"])
    assert len(found) - sum(found) <= round(len(found) / 1_000)


@pytest.mark.deep
def test_a_random_strict_model_mostly_needs_no_repair(rows: list[dict[str, Any]], sampler: Sampler) -> None:
    valid = total = 0
    some = rows if len(rows) < 1_000 else rows[::5]
    for row in some:
        codec = make_codec(row["schema"])
        original = compile_validator(row["schema"])
        text = sampler.write(sampler.compile(codec.schema))
        if text is None:
            continue
        total += 1
        valid += original.is_valid(codec.decode(json.loads(text)))
    assert total > 0.85 * len(some)
    assert valid >= 0.84 * total


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.deep)])
def test_hard_schemas_compile(sampler: Sampler, count: int) -> None:
    rng = random.Random(11)
    schemas = Schemas(rng)
    cases = [schemas.document() for _ in range(count)]
    cases += [schema for name, schema in special().items() if "wide" not in name and "many" not in name]
    for schema in cases:
        codec = make_codec(schema)
        matcher = sampler.compile(codec.schema)
        if isinstance(matcher, str) and matcher.startswith("Unsatisfiable"):
            assert Maker(schema, random.Random(13), extra_keys=0).valid(3, 12) == [], "nothing fits the original either"
            continue
        assert not isinstance(matcher, str), (matcher, schema)
        text = sampler.write(matcher)
        if text is not None:
            codec.decode(json.loads(text))


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.deep)])
def test_hard_instances_are_consumed(sampler: Sampler, count: int) -> None:
    rng = random.Random(12)
    schemas = Schemas(rng)
    found: list[bool] = []
    for _ in range(count):
        schema = schemas.document()
        codec = make_codec(schema, open_objects="keep")
        try:
            instances = Maker(schema, rng, extra_keys=0).valid(2, 8)
        except Exception:
            continue
        found += consumed(sampler, codec, instances)
    assert len(found) > 0.6 * count
    assert sum(found) >= 0.98 * len(found)


@pytest.mark.deep
def test_cloudformation_schemas_compile(sampler: Sampler) -> None:
    """1,600 schemas by many authors, from cfn-lint."""
    cfnlint = pytest.importorskip("cfnlint")
    folder = Path(cfnlint.__file__).parent / "data/schemas/resources"
    rng = random.Random(13)
    for file in sorted(folder.glob("*.json")):
        schema = json.loads(file.read_text())
        codec = make_codec(schema)
        assert codec.strict
        assert not isinstance(sampler.compile(codec.schema), str), file.name
        try:
            instances = Maker(schema, rng, extra_keys=0).valid(2, 8)
            original = compile_validator(schema)
        except Exception:
            continue
        for instance in instances:
            assert original.is_valid(codec.decode(encode(codec, instance))), file.name
