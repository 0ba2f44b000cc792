"""The packages of the layer: their documented order is the enforced one, and the pure ones need only pydantic."""

import os
import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run

_ROOT = Path(__file__).resolve().parents[2]
_LAYER = _ROOT / "layers" / "codelab"
#: What pydantic consists of, and the validator of schemas.
_THIRD_PARTY = (
    "annotated_types",
    "jsonschema_rs",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
)


@pytest.fixture(scope="module")
def contracts() -> dict[str, Any]:
    """The contracts of the import linter, by id."""
    written = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract for contract in written}


def layers(contracts: dict[str, Any]) -> list[str]:
    return [name.strip() for layer in contracts["layers"]["layers"] for name in layer.split("|")]


def test_contributing_lists_the_packages_in_their_enforced_order(contracts: dict[str, Any]) -> None:
    rows = re.findall(r"^\| `(?:layers/codelab/codelab|…)/(\w+)` \|", (_ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert rows == [name.removeprefix("codelab.") for name in layers(contracts)]


def test_every_package_of_the_layer_has_its_place(contracts: dict[str, Any]) -> None:
    packages = {path.parent.name for path in (_LAYER / "codelab").glob("*/__init__.py")}
    assert {f"codelab.{name}" for name in packages} <= {*layers(contracts)}


def test_pure_modules_import_with_nothing_but_pydantic_and_jsonschema(
    contracts: dict[str, Any], tmp_path: Path
) -> None:
    for name in _THIRD_PARTY:
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        origin = origin.parent if found.submodule_search_locations else origin
        (tmp_path / origin.name).symlink_to(origin)
    pure, impure = contracts["pure"]["source_modules"], tuple(contracts["pure"]["forbidden_modules"])
    modules = [module for source in pure for module in _modules(source) if not module.startswith(impure)]
    assert len(modules) > 60
    environment = {**os.environ, "PYTHONPATH": f"{_LAYER}:{tmp_path}"}
    imported = run(sys.executable, "-S", "-c", f"import {', '.join(modules)}", env=environment)
    assert imported.returncode == 0, imported.stderr


_IMPORT_ALL = """
import os, pkgutil, sys
import codelab

read = os._Environ.__getitem__

def watched(environ, name):
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith("<frozen") or frame.f_globals.get("__name__") == "os":
        frame = frame.f_back
    if frame.f_globals.get("__name__", "").startswith("codelab"):
        sys.exit(f"{frame.f_globals['__name__']} reads {name}")
    return read(environ, name)

os._Environ.__getitem__ = watched
for module in pkgutil.walk_packages(codelab.__path__, "codelab.", onerror=lambda name: sys.exit(name)):
    __import__(module.name)
"""


def test_the_layer_reads_no_environment_while_it_is_imported() -> None:
    """Functions of a local cloud share its import, and each has an environment of its own."""
    imported = run(sys.executable, "-c", _IMPORT_ALL, env={**os.environ, "PYTHONPATH": str(_LAYER)})
    assert imported.returncode == 0, imported.stderr


def _modules(source: str) -> list[str]:
    """The module, and those in it if it is a package. `package.*` stands for those in it."""
    source = source.removesuffix(".*")
    path = _LAYER.joinpath(*source.split("."))
    inside = sorted(path.rglob("*.py")) if path.is_dir() else []
    names = [".".join(file.relative_to(_LAYER).with_suffix("").parts) for file in inside]
    return [source, *(name for name in names if not name.endswith("__init__"))]
