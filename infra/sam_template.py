"""Reads a SAM template, with CloudFormation's short forms as what they stand for: `!Ref x` is {"Ref": "x"}."""

from pathlib import Path
from typing import Any

import yaml
from samtranslator.yaml_helper import intrinsics_multi_constructor


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The translator reads templates with the loader that is written in Python, which takes ten times as long."""


_Loader.add_multi_constructor("!", intrinsics_multi_constructor)


def parse(path: Path) -> dict[str, Any]:
    """The template in a YAML file. Raises `yaml.YAMLError`."""
    template: dict[str, Any] = yaml.load(path.read_text("utf-8"), _Loader)
    return template
