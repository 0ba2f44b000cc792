"""`codelab uninstall`: lists what the client keeps on this machine, and removes it if the user agrees."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from codelab_client.config import config_folder
from codelab_client.line_input import ask
from codelab_client.login import kept
from codelab_client.login.errors import LoginError
from codelab_client.safe_text import safe, safe_line
from codelab_client.session.journal import state_folder
from codelab_client.setup import model_file
from codelab_client.setup.errors import SetupError


@dataclass(frozen=True)
class Remains:
    """What there is. keys: the entries of the keyring, for people."""

    folders: tuple[tuple[Path, str], ...]
    servers: tuple[str, ...]
    has_model_key: bool

    @property
    def lines(self) -> list[str]:
        """One for each, for people."""
        model = ["the key of the model, in the keyring"] if self.has_model_key else []
        logins = [f"the login at {server}, in the keyring" for server in self.servers]
        return [*(f"{folder}  ({_size(folder)}): {about}" for folder, about in self.folders), *model, *logins]


def remains() -> Remains:
    """What the client has left on this machine. Nothing is changed."""
    folders = (
        (config_folder(), "your settings, skills and MCP servers, and the model"),
        (state_folder(), "conversations, what /undo needs, logins, history, logs"),
    )
    return Remains(
        tuple((folder, about) for folder, about in folders if folder.is_dir() and not folder.is_symlink()),
        tuple(kept.in_keyring()),
        model_file.has_keyring_entry(),
    )


async def uninstall(*, agreed: bool) -> int:
    """Remove it. Returns the exit code. agreed: do not ask."""
    leftovers = remains()
    if not leftovers.lines:
        _say("codelab has left nothing on this machine outside of projects.")
        return 0
    _say("codelab has left on this machine:")
    for line in leftovers.lines:
        _say(f"  {safe_line(line, 200)}")
    if not agreed:
        if not sys.stdin.isatty():
            _say("Nothing was removed: --yes removes it without asking.")
            return 1
        answer = await ask("Close all windows of codelab first. Remove all of it? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            _say("Nothing was removed.")
            return 1
    problems = _removed(leftovers)
    for problem in problems:
        _say(problem)
    _say("What is in the checkout, `make clean` removes; the rest of codelab is the package itself.")
    return int(bool(problems))


def _removed(leftovers: Remains) -> list[str]:
    """Remove it, the keyring's entries first, because the files name them. Returns what could not be removed."""
    problems = []
    for server in leftovers.servers:
        try:
            kept.forget(server)
        except LoginError as error:
            problems.append(str(error))
    if leftovers.has_model_key:
        try:
            model_file.forget()
        except SetupError as error:
            problems.append(str(error))
    for folder, _ in leftovers.folders:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            problems.append(f"{folder} could not be removed")
    return problems


def _size(folder: Path) -> str:
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return f"{size / 1e6:.1f} MB"


def _say(text: str) -> None:
    sys.stderr.write(f"{safe(text)}\n")
