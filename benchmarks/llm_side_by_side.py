"""Compare ways to make a schema strict, on a file of real schemas.

    python benchmarks/llm_side_by_side.py FILE

Ours, the openai SDK's `to_strict`, and pydantic-ai's transformer (if it is installed). For each: how many
schemas the oracle accepts, and how many of the valid instances an accepted schema can still express. The other two
have no way back, so they express an instance if it is valid unchanged.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
from codelab.llm.schema.codec import make_codec

from benchmarks.llm_codec import METASCHEMA, Oracle, read, share
from tests.llm.encoder import NotEncodable, encode


def ours(schema: Any) -> tuple[Any, Callable[[Any], bool]]:
    codec = make_codec(schema)

    def says(instance: Any) -> bool:
        try:
            encode(codec, instance)
        except NotEncodable:
            return False
        return True

    return codec.schema, says


def _as_it_is(schema: Any) -> Callable[[Any], bool]:
    def says(instance: Any) -> bool:
        return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(instance))

    return says


def openai_sdk(schema: Any) -> tuple[Any, Callable[[Any], bool]]:
    from openai.lib._pydantic import _ensure_strict_json_schema

    strict = _ensure_strict_json_schema(copy.deepcopy(schema), path=(), root=schema)
    return strict, _as_it_is(strict)


def pydantic_ai(schema: Any) -> tuple[Any, Callable[[Any], bool]]:
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

    strict = OpenAIJsonSchemaTransformer(copy.deepcopy(schema), strict=True).walk()
    return strict, _as_it_is(strict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    folders = [file.parent, Path(os.environ.get("CODELAB_DATA", "."))]
    oracle = Oracle(next(folder / METASCHEMA for folder in folders if (folder / METASCHEMA).exists()))
    rows = list(read(file))
    for name, way in (("ours", ours), ("openai to_strict", openai_sdk), ("pydantic-ai", pydantic_ai)):
        accepted = said = valid = failed = 0
        seconds = 0.0
        for row in rows:
            valid += len(row.get("valid") or ())
            started = time.process_time()
            try:
                strict, says = way(row["schema"])
            except ImportError:
                print(f"{name:<18} not installed")
                break
            except Exception:
                failed += 1
                continue
            seconds += time.process_time() - started
            try:
                fine = not oracle.problems(strict)
            except Exception:
                fine = False
            if fine:
                accepted += 1
                said += sum(map(says, row.get("valid") or ()))
        else:
            print(f"{name:<18} accepted {share(accepted, len(rows))}; instances {share(said, valid)}; "
                  f"failed {failed}; {1000 * seconds / len(rows):.3f} ms per schema")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
