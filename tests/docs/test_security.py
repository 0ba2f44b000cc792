"""`docs/security.md` names settings and tests: they are there."""

import re
from pathlib import Path

from codelab.config import Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| .+ \|$", re.MULTILINE)
#: Of the local cloud alone.
_LOCAL = {"HOST", "ALLOWED_HOSTS", "ALLOWED_ORIGINS"}


def test_every_test_that_it_names_is_there() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+|test_\w+\.py)`", PAGE))
    assert len(named) > 20
    missing = [
        name for name in named if not any((folder / name).exists() for folder in (ROOT, ROOT / "tests/security"))
    ]
    assert not missing


def test_every_setting_that_it_names_is_there() -> None:
    named = {name for row in _ROW.findall(PAGE) for name in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", row)}
    known = {name.upper() for name in Settings.model_fields} | _LOCAL | {"RATE_LIMITED"}
    assert len(named) > 15
    assert named <= known, named - known
    parameters = (ROOT / "template.yaml").read_text(encoding="utf-8")
    for parameter in re.findall(r"`((?:Throttle|LlmReserved|StreamReserved|Allowed|LogRetention)\w+)`", PAGE):
        assert f"\n  {parameter}:\n" in parameters, parameter


def test_every_attack_that_is_kept_is_named() -> None:
    for file in (ROOT / "tests/security").glob("test_*.py"):
        assert f"`{file.name}`" in PAGE, f"{file.name} is told nowhere"
