"""Measure the strict codec on a file of real schemas.

    python benchmarks/llm_codec.py FILE [--open-objects close|keep] [--metaschema FILE] [--samples N] [--show N]

FILE has one JSON object per line, perhaps gzipped: {"id", "schema", "valid": [instance…], "invalid": [instance…]}. The
meta-schema of strict mode is in the same folder or in the folder that CODELAB_DATA names. With --samples, a random
model writes that many answers for each strict schema (llguidance masks its tokens), and its answers are decoded and
validated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from codelab.llm.errors import InvalidRequest
from codelab.llm.schema.codec import make_codec
from codelab.llm.schema.limits import measure
from codelab.llm.schema.validation import compile_validator

from tests.llm.encoder import NotEncodable, encode

METASCHEMA = "openai_strict_metaschema.yaml"


def read(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


class Oracle:
    """Checks whether strict mode accepts a schema: the keywords by the meta-schema, the rest by its documentation."""

    def __init__(self, metaschema: Path) -> None:
        self._validator = jsonschema_rs.validator_for(yaml.safe_load(metaschema.read_text()))

    def problems(self, schema: Any) -> list[str]:
        error = next(iter(self._validator.iter_errors(schema)), None)
        problems = [] if error is None else [f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}"]
        return problems or [*self._rules(schema, ""), *measure(schema).exceeded()]

    def _rules(self, node: Any, path: str) -> Iterator[str]:
        kinds = node.get("type")
        if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
            if list(node.get("required", ())) != list(node.get("properties", {})):
                yield f"{path}: required does not list all properties"
            if node.get("additionalProperties") is not False:
                yield f"{path}: additionalProperties is not false"
        if (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)) and "items" not in node:
            yield f"{path}: no items"
        for keyword in ("properties", "$defs"):
            for name, child in node.get(keyword, {}).items():
                yield from self._rules(child, f"{path}/{keyword}/{name}")
        if "items" in node:
            yield from self._rules(node["items"], f"{path}/items")
        for index, branch in enumerate(node.get("anyOf", ())):
            yield from self._rules(branch, f"{path}/anyOf/{index}")


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.2f} %)" if whole else "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--open-objects", choices=("close", "keep"), default="close")
    parser.add_argument("--metaschema", type=Path)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print this many of each kind of failure")
    arguments = parser.parse_args()
    metaschema = arguments.metaschema or next(
        (
            folder / METASCHEMA
            for folder in (arguments.file.parent, Path(os.environ.get("CODELAB_DATA", ".")))
            if (folder / METASCHEMA).exists()
        ),
        None,
    )
    if metaschema is None:
        print(f"{METASCHEMA} is neither beside the file nor in CODELAB_DATA", file=sys.stderr)
        return 2
    oracle = Oracle(metaschema)
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    seconds = 0.0
    slowest = (0.0, "")

    def show(kind: str, *what: Any) -> None:
        shown[kind] += 1
        if shown[kind] <= arguments.show:
            print(f"-- {kind}:", *(str(item)[:600] for item in what))

    sampler = Sampler(arguments.seed) if arguments.samples else None
    for row in read(arguments.file):
        counts["schemas"] += 1
        schema = row["schema"]
        started = time.process_time()
        try:
            codec = make_codec(schema, open_objects=arguments.open_objects)
        except Exception as error:
            counts["crashes"] += 1
            show("crash", row["id"], repr(error))
            continue
        took = time.process_time() - started
        seconds += took
        slowest = max(slowest, (took, row["id"]))
        if not codec.strict:
            reasons["not a schema"] += 1
            show("not strict", row["id"], "not a schema", json.dumps(schema))
        else:
            problems = oracle.problems(codec.schema)
            counts["accepted"] += not problems
            if problems:
                show("not accepted", row["id"], problems[:3])
        try:
            original = compile_validator(schema)
        except InvalidRequest as error:
            counts["uncompilable"] += 1
            show("original does not compile", row["id"], error)
            original = None
        for kind in ("valid", "invalid"):
            for instance in row.get(kind) or ():
                counts[kind] += 1
                try:
                    restored = codec.decode(encode(codec, instance, original))
                except NotEncodable:
                    show(f"{kind} not expressible", row["id"], json.dumps(instance))
                    continue
                except Exception as error:
                    counts["crashes"] += 1
                    show("crash", row["id"], repr(error), json.dumps(instance))
                    continue
                counts[f"{kind} expressible"] += 1
                counts[f"{kind} restored exactly"] += restored == instance
                if kind == "valid" and original is not None and not original.is_valid(restored):
                    if original.is_valid(instance):
                        counts["restored invalid"] += 1
                        show("restored invalid", row["id"], json.dumps(restored), json.dumps(instance))
                    else:
                        counts["valid instances that are not"] += 1
                if kind == "invalid":
                    show("invalid expressible", row["id"], json.dumps(instance), json.dumps(schema))
        if sampler is not None and codec.strict and original is not None:
            for _ in range(arguments.samples):
                sampler.sample(codec, original, counts, lambda kind, *what, row=row: show(kind, row["id"], *what))

    print(f"schemas                         {counts['schemas']} ({arguments.open_objects})")
    print(f"accepted by the oracle          {share(counts['accepted'], counts['schemas'])}")
    for reason, count in reasons.most_common():
        print(f"  not strict: {reason:<20}{count}")
    print(f"valid instances expressible     {share(counts['valid expressible'], counts['valid'])}")
    print(f"  restored exactly              {share(counts['valid restored exactly'], counts['valid'])}")
    print(f"restored instances invalid      {counts['restored invalid']}")
    not_expressible = counts["invalid"] - counts["invalid expressible"]
    print(f"invalid instances not expressible  {share(not_expressible, counts['invalid'])}")
    print(f"crashes                         {counts['crashes']}")
    print(f"conversion                      {1000 * seconds / max(1, counts['schemas']):.3f} ms mean of CPU, "
          f"slowest {1000 * slowest[0]:.1f} ms ({slowest[1]})")  # fmt: skip
    if counts["uncompilable"]:
        print(f"originals that do not compile   {counts['uncompilable']}")
    if counts["valid instances that are not"]:
        print(f"'valid' but invalid here        {counts['valid instances that are not']}")
    if sampler is not None:
        print(
            f"strict schemas llguidance compiles   {share(counts['compiled'], counts['compiled'] + counts['refused'])}"
        )
        print(f"samples finished                {share(counts['sampled'], counts['sampled'] + counts['unfinished'])}")
        print(f"samples valid without repair    {share(counts['sample valid'], counts['sampled'])}")
    return 0


class Sampler:
    """A random model. It writes any character that llguidance allows next, and tends to end."""

    def __init__(self, seed: int, longest: int = 3000) -> None:
        import llguidance

        self._matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.LLTokenizer("byte")
        self._random = random.Random(seed)
        self._longest = longest

    def compile(self, schema: Any) -> Any:
        """A fresh matcher, or the reason why the grammar is refused."""
        grammar = self._matcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False})
        matcher = self._matcher(self._tokenizer, grammar, log_level=0)
        return matcher.get_error() if matcher.is_error() else matcher

    def sample(self, codec: Any, original: Any, counts: Counter[str], show: Callable[..., None]) -> None:
        matcher = self.compile(codec.schema)
        if isinstance(matcher, str):
            counts["refused"] += 1
            show("llguidance refuses", matcher[:300], json.dumps(codec.schema))
            return
        counts["compiled"] += 1
        text = self.write(matcher)
        if text is None:
            counts["unfinished"] += 1
            return
        counts["sampled"] += 1
        try:
            restored = codec.decode(json.loads(text))
        except Exception as error:
            counts["crashes"] += 1
            show("crash", repr(error), text)
            return
        if original.is_valid(restored):
            counts["sample valid"] += 1
        else:
            show("sample invalid", next(iter(original.iter_errors(restored))).message, text)

    def write(self, matcher: Any) -> str | None:
        """A whole answer, or None if it did not end."""
        rng = self._random
        out = bytearray()
        while not matcher.is_stopped() and len(out) < self._longest:
            allowed = _allowed(matcher.compute_bitmask())
            choices = [token for token in allowed if 32 <= token < 127]
            if not choices:
                break
            ending = [token for token in choices if token in b'"]}']
            token = rng.choice(ending) if ending and rng.random() < 0.35 else rng.choice(choices)
            if len(out) > self._longest // 3 and ord("n") in choices and ord('"') not in choices[1:]:
                token = ord("n")  # null is the way out of a recursion
            if not matcher.consume_token(token):
                return None
            out.append(token)
        return out.decode() if matcher.is_accepting() or matcher.is_stopped() else None


def _allowed(mask: bytes) -> list[int]:
    return [token for token in range(256) if mask[token >> 3] >> (token & 7) & 1]


if __name__ == "__main__":
    sys.exit(main())
