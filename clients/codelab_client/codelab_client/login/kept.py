"""The logins that are kept: one for each server, and sent to no other.

`logins.json` names the servers. The tokens are in the system's keyring, or, without one, in that file too, which only
its owner can read.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from codelab_client.login.errors import LoginError
from codelab_client.session.journal import state_folder

_SERVICE = "codelab"
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Login:
    """A token, and what renews it. Without an issuer, the user pasted the token."""

    token: str
    issuer: str = ""
    client_id: str = ""
    audience: str = ""
    refresh_token: str = ""


def file() -> Path:
    """The file that names the servers."""
    return state_folder() / "logins.json"


def find(server: str) -> Login | None:
    """The login at a server. Raises LoginError if it cannot be read, or others could have read it."""
    entry = _read().get(server)
    if not isinstance(entry, dict):
        return None
    content: Any = entry
    if entry.get("kept") == "keyring":
        content = _from_keyring(server)
    known = [field.name for field in fields(Login)]
    texts = {name: content[name] for name in known if isinstance(content.get(name), str)}
    if not texts.get("token"):
        raise LoginError(f"The login at {server} is gone from the keyring: `codelab login` signs in again")
    return Login(**texts)


def keep(server: str, login: Login) -> str:
    """Keep the login at a server in place of an older one. Returns where it is, for the user. Raises LoginError."""
    content = asdict(login)
    keyring = _keyring()
    where = str(file())
    if keyring is not None:
        try:
            keyring.set_password(_SERVICE, server, json.dumps(content))
            # Some keyrings cut what is too long for them.
            if keyring.get_password(_SERVICE, server) == json.dumps(content):
                content, where = {"kept": "keyring"}, f"the keyring ({keyring.name})"
        except Exception:  # what a keyring raises depends on the system; the file always works
            pass
    with _changed() as logins:
        logins[server] = content
    return where


def forget(server: str) -> None:
    """Forget the login at a server. Raises LoginError."""
    with _changed() as logins:
        entry = logins.pop(server, None)
        if isinstance(entry, dict) and entry.get("kept") == "keyring":
            keyring = _keyring()
            try:
                if keyring is None:
                    raise LoginError("there is no keyring now")
                keyring.delete_password(_SERVICE, server)
            except Exception as error:  # as in `keep`
                raise LoginError(f"The keyring does not delete the login at {server}: {error}") from None


def _keyring() -> Any:
    """The system's keyring; None if it has none that it recommends, such as one that encrypts nothing."""
    import keyring

    try:
        found = keyring.get_keyring()
        return found if found.priority >= 1 else None
    except Exception:  # as in `keep`
        return None


def _from_keyring(server: str) -> dict[str, Any]:
    keyring = _keyring()
    try:
        found = json.loads(keyring.get_password(_SERVICE, server) or "{}") if keyring is not None else {}
    except Exception as error:  # as in `keep`
        raise LoginError(f"The keyring does not give the login at {server}: {error}") from None
    return found if isinstance(found, dict) else {}


def _read() -> dict[str, Any]:
    path = file()
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise LoginError(f"{path}: {error.strerror}") from None
    with os.fdopen(opened, "rb") as content:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise LoginError(f"{path} is not a file")
        if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077):
            raise LoginError(
                f"Others can read or own {path}, so its tokens are not used: delete it, and `codelab login` again"
            )
        data = content.read(_MOST_BYTES)
    try:
        logins = json.loads(data)
    except (ValueError, RecursionError):
        logins = None
    if not isinstance(logins, dict):
        raise LoginError(f"{path} is damaged: delete it, and `codelab login` again")
    return logins


@contextlib.contextmanager
def _changed() -> Iterator[dict[str, Any]]:
    """The logins to change, which are written back in one step, readable by nobody else at any time."""
    path = file()
    logins = _read()
    yield logins
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
            json.dump(logins, written)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LoginError(f"{path}: {error.strerror}") from None
