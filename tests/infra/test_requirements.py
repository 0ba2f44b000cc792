"""The functions' packages are exactly those with the lock's hashes."""

import re
from pathlib import Path

from tests.cases import cases

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("functions/*/requirements.txt")), ROOT / "layers/codelab/requirements.txt"]


@cases("file", FILES, ids=lambda file: file.parent.name)
def test_every_requirement_has_hashes(file: Path) -> None:
    text = file.read_text()
    packages = re.split(r"(?m)^(?=[a-z0-9-]+==)", text)[1:]
    assert packages
    unchecked = [package.splitlines()[0] for package in packages if "--hash=sha256:" not in package]
    assert not unchecked, "pip would take whatever the index gives it"
    hashes = set(re.findall(r"sha256:[0-9a-f]{64}", text))
    assert hashes <= set(re.findall(r"sha256:[0-9a-f]{64}", (ROOT / "uv.lock").read_text()))


def test_the_build_only_uses_wheels_with_verified_hashes() -> None:
    """SAM lets pip download Lambda's wheels by name only, so pip may only see wheels that were verified before."""
    build = (ROOT / "infra/build.mk").read_text()
    assert build.index("pip download --require-hashes") < build.index("PIP_NO_INDEX=1") < build.index("$(SAM) build")
