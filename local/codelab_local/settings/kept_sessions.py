"""Where `--keep-sessions` keeps what STATE_DIR would: a folder of the user's for each template."""

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from codelab_local.host.errors import StartError

#: Where `codelab` kept the sessions of the local cloud that it started, whatever checkout that was of.
_FORMER_NAME = "local_cloud"


def prepare(template: Path, environ: Mapping[str, str], service: str) -> tuple[Path | None, str]:
    """The folder for the project that the template is in, and a note for the user.

    It is `$XDG_STATE_HOME/SERVICE/checkouts/NAME-HASH`. None where none can be made, so that nothing is kept.
    """
    project = template.resolve().parent
    label = re.sub(r"[^\w.-]+", "-", project.name)[:40]
    name = f"{label}-{hashlib.sha256(os.fsencode(project)).hexdigest()[:12]}"
    try:
        state = Path(environ.get("XDG_STATE_HOME", ""))
        root = (state if state.is_absolute() else Path.home() / ".local" / "state") / service
        folder = root / "checkouts" / name
        note = "" if folder.exists() else _adopt(root / _FORMER_NAME, folder)
        for private in (root, folder.parent, folder):
            private.mkdir(0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except (OSError, RuntimeError) as error:  # or there is no home
        return None, f"sessions are in memory only: {error}"
    return folder, note


def set_aside(folder: Path) -> Path:
    """Rename a folder that cannot be used. Returns where it is. Raises :class:`StartError`."""
    target = folder.with_name(f"{folder.name}.{time.strftime('%Y-%m-%d-%H%M%S')}")
    try:
        folder.rename(target)
    except OSError as error:
        raise StartError(f"cannot set {folder} aside: {error.strerror}. Move it away") from None
    return target


def put_back(set_aside_folder: Path, folder: Path) -> None:
    """Take back `set_aside`, and remove what has been made in its place. Raises :class:`StartError`."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        set_aside_folder.rename(folder)
    except OSError as error:
        raise StartError(f"cannot move {set_aside_folder} back to {folder}: {error.strerror}") from None


def _adopt(former: Path, folder: Path) -> str:
    """Move there what a former version kept elsewhere, if it did; a note."""
    if not (former / "services").is_dir() or former.is_symlink():
        return ""
    folder.parent.mkdir(0o700, parents=True, exist_ok=True)
    former.rename(folder)
    return f"the sessions in {former} are in {folder} now"
