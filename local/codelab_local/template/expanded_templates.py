"""Remembers what AWS's SAM transform makes of a template.

The transform's import and run take 40 % of the emulator's start, and 40 MB that it keeps. They always make the same of
the same template. So the first start keeps the outcome beside the bytecode of this Python environment, and later ones
deploy that.
"""

import hashlib
import json
import os
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_TRANSFORM = "AWS::Serverless-2016-10-31"
_FOLDER = Path(sys.prefix) / "codelab-local" / "templates"
#: More than a project has templates. Each change of a template makes another.
_KEPT = 20


class ExpandedTemplate:
    """The expansion of one template (`body`, as JSON), which `folder` may have."""

    def __init__(self, body: str, region: str, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._path: Path | None = None
        # Other transforms also read parameters and objects.
        if json.loads(body).get("Transform") == _TRANSFORM and '"Fn::Transform"' not in body:
            with suppress(PackageNotFoundError):  # the deployment reports it
                made_of = [version("aws-sam-translator"), version("ministack"), region, body]
                self._path = folder / f"{hashlib.sha256(json.dumps(made_of).encode()).hexdigest()}.json"

    def read(self) -> str | None:
        """The expanded template as JSON; None if it is not known."""
        if self._path is None:
            return None
        with suppress(OSError, ValueError, LookupError, TypeError):
            text = self._path.read_text("utf-8")
            if isinstance(json.loads(text)["Resources"], dict):
                return text
        return None

    def write(self, text: str) -> None:
        """Keep the expanded template. Does nothing where it cannot be kept."""
        if self._path is None:
            return
        with suppress(OSError):
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(self._path)  # Another start may read it now.
            # The new one is the newest, also where clocks are coarse or are set back.
            oldest_first = sorted(self._folder.iterdir(), key=lambda path: (path == self._path, path.stat().st_mtime))
            for path in oldest_first[:-_KEPT]:
                path.unlink(missing_ok=True)
