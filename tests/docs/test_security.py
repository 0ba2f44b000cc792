"""The settings and tests that `docs/security.md` names exist."""

import re
from pathlib import Path

from codelab.config import Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| .+ \|$", re.MULTILINE)
#: Only in the local cloud.
_LOCAL = {"HOST", "ALLOWED_HOSTS", "ALLOWED_ORIGINS"}


def test_every_test_on_the_page_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+|test_\w+\.py)`", PAGE))
    assert len(named) > 20
    missing = [
        name for name in named if not any((folder / name).exists() for folder in (ROOT, ROOT / "tests/security"))
    ]
    assert not missing


def test_every_setting_on_the_page_exists() -> None:
    named = {name for row in _ROW.findall(PAGE) for name in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", row)}
    known = {name.upper() for name in Settings.model_fields} | _LOCAL | {"RATE_LIMITED"}
    assert len(named) > 15
    assert named <= known, named - known
    parameters = (ROOT / "template.yaml").read_text(encoding="utf-8")
    for parameter in re.findall(r"`((?:Throttle|LlmReserved|StreamReserved|Allowed|LogRetention)\w+)`", PAGE):
        assert f"\n  {parameter}:\n" in parameters, parameter


def test_every_attack_test_is_on_the_page() -> None:
    for file in (ROOT / "tests/security").glob("test_*.py"):
        assert f"`{file.name}`" in PAGE, f"{file.name} is told nowhere"
