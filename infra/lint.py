"""Checks the templates with cfn-lint and the house rules, before and after SAM's translation.

`python -m infra.lint [template.yaml …]`; the default is template.yaml and every template in infra/. Prints one line per
check, and problems with their place on stderr. The exit status is 1 if there are problems.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from samtranslator.model.exceptions import InvalidDocumentException

from infra.translate import translate_file

if TYPE_CHECKING:
    from cfnlint.rules import Match

_ROOT = Path(__file__).resolve().parent.parent
_RULES = Path(__file__).resolve().parent / "rules"
# In a translation, these repeat the original's findings or concern what SAM generates.
_NOT_OF_TRANSLATIONS = ("W2001", "W3005")


def problems(path: Path, ignored: Sequence[str] = ()) -> "list[Match]":
    """The problems that cfn-lint with the house rules finds in the template at `path`."""
    from cfnlint.config import ConfigMixIn  # every process of the tests imports this file, and few lint a template
    from cfnlint.runner import Runner

    arguments = ["--append-rules", str(_RULES), "--regions", "us-east-1", "eu-central-1"]
    if ignored:
        arguments += ["--ignore-checks", *ignored]
    return list(Runner(ConfigMixIn([*arguments, "--", str(path)])).run())


def problems_of_translation(path: Path) -> "list[Match]":
    """The same for SAM's translation of `path`. Raises InvalidDocumentException if SAM refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        translated = Path(folder) / f"{path.stem}.translated.json"
        translated.write_text(json.dumps(translate_file(path), indent=2))
        return problems(translated, _NOT_OF_TRANSLATIONS)


def _report(path: Path, found: "list[Match]", translated: bool) -> bool:
    sys.stdout.write(f"lint: cfn-lint and the house rules, {path}{', translated by SAM' if translated else ''}\n")
    sys.stdout.flush()
    for match in found:
        named = isinstance(match.path, list) and len(match.path) > 1 and match.path[0] == "Resources"
        place = f"{path} ({match.path[1]})" if translated and named else f"{path}:{match.linenumber}"
        sys.stderr.write(f"{place}: {match.rule.id} {match.message}\n")
    return bool(found)


def main(arguments: Sequence[str]) -> int:
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    paths = [Path(argument) for argument in arguments] or [Path("template.yaml"), *sorted(Path("infra").glob("*.yaml"))]
    failed = False
    for path in paths:
        failed |= _report(path, problems(path), translated=False)
        if "AWS::Serverless" in path.read_text():
            try:
                found = problems_of_translation(path)
            except InvalidDocumentException as refused:
                sys.stderr.write(f"{path}: {refused.message}\n")
                sys.stderr.writelines(f"{path}: {cause.message}\n" for cause in refused.causes)
                failed = True
                continue
            failed |= _report(path, found, translated=True)
    return int(failed)


if __name__ == "__main__":
    os.chdir(_ROOT)
    sys.exit(main(sys.argv[1:]))
