"""The user changes a call's arguments in $EDITOR."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codelab_client.safe_text import exact_json
from codelab_client.tools.processes import own_path

#: The argument that is edited as plain text, and the end of the file's name; other calls are edited as JSON.
_TEXTS = {
    "run_command": ("command", ".sh"),
    "run_persistent": ("command", ".sh"),
    "write_file": ("content", ""),
    "apply_patch": ("diff", ".diff"),
}


class EditError(Exception):
    """The user's editor gave nothing that can be used. The text says why."""


def _editor() -> list[str]:
    """The user's editor, and not a program of the workspace with its name. Raises EditError."""
    name, *options = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi") or ["vi"]
    program = name if os.sep in name else shutil.which(name, path=own_path(os.environ, Path.cwd()))
    if program is None:
        raise EditError(f"{name}: there is no such program outside the workspace")
    return [program, *options]


def edited(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Open the editor and wait for its end. Returns all arguments, or None if nothing was changed. Raises EditError."""
    name, ending = _TEXTS.get(tool, (None, ".json"))
    text = exact_json(arguments) if name is None else str(arguments.get(name, ""))
    if tool == "write_file":
        ending = Path(str(arguments.get("path", ""))).suffix[:20]
    with tempfile.TemporaryDirectory(prefix="codelab-") as folder:
        file = Path(folder) / f"arguments{ending if ending.replace('.', '').isalnum() else ''}"
        file.write_text(text, "utf-8", newline="")
        command = _editor()
        try:
            code = subprocess.call([*command, str(file)])
            after = file.read_bytes().decode("utf-8")
        except (OSError, ValueError) as error:
            raise EditError(f"{command[0]}: {error}") from None
    if code != 0:
        raise EditError(f"{command[0]} ended with {code}, so nothing was changed")
    if name is not None:
        if name == "command":  # an editor ends a file with a newline
            after = after.removesuffix("\n") if not text.endswith("\n") else after
        return None if after == text else {**arguments, name: after}
    try:
        content = json.loads(after)
    except ValueError as error:
        raise EditError(f"This is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise EditError("The arguments must be a JSON object")
    return None if content == arguments else content
