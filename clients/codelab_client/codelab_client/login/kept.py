"""The logins that are kept: one for each server, and sent to no other.

`logins.json` names the servers. The tokens are in the system's keyring, or, without one, in that file too, which only
its owner can read.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from codelab_client import private_file
from codelab_client.login.errors import LoginError
from codelab_client.private_file import PrivateFileError
from codelab_client.session.journal import state_folder
from codelab_client.system_keyring import kept_in_keyring, system_keyring

_SERVICE = "codelab"


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


def in_keyring() -> list[str]:
    """The servers whose login the keyring has; none if the file cannot be read."""
    try:
        logins = _read()
    except LoginError:
        return []
    return [server for server, entry in logins.items() if isinstance(entry, dict) and entry.get("kept") == "keyring"]


def find(server: str) -> Login | None:
    """The login at a server. Raises LoginError if it cannot be read, or others could have read it."""
    entry = _read().get(server)
    if not isinstance(entry, dict):
        return None
    content: Any = entry
    if entry.get("kept") == "keyring":
        content = _from_keyring(server)
    names = [field.name for field in fields(Login)]
    texts = {name: content[name] for name in names if isinstance(content.get(name), str)}
    if not texts.get("token"):
        raise LoginError(f"The login at {server} is gone from the keyring: `codelab login` signs in again")
    return Login(**texts)


def keep(server: str, login: Login) -> str:
    """Keep the login at a server in place of an older one. Returns where it is, for the user. Raises LoginError."""
    content = asdict(login)
    place = str(file())
    if name := kept_in_keyring(_SERVICE, server, json.dumps(content)):
        content, place = {"kept": "keyring"}, f"the keyring ({name})"
    with _changed() as logins:
        logins[server] = content
    return place


def forget(server: str) -> None:
    """Forget the login at a server. Raises LoginError."""
    with _changed() as logins:
        entry = logins.pop(server, None)
        if isinstance(entry, dict) and entry.get("kept") == "keyring":
            keyring = system_keyring()
            try:
                if keyring is None:
                    raise LoginError("there is no keyring now")
                keyring.delete_password(_SERVICE, server)
            except Exception as error:  # what a keyring raises depends on the system
                raise LoginError(f"The keyring does not delete the login at {server}: {error}") from None


def _from_keyring(server: str) -> dict[str, Any]:
    keyring = system_keyring()
    try:
        content = json.loads(keyring.get_password(_SERVICE, server) or "{}") if keyring is not None else {}
    except Exception as error:  # as above
        raise LoginError(f"The keyring does not give the login at {server}: {error}") from None
    return content if isinstance(content, dict) else {}


def _read() -> dict[str, Any]:
    path = file()
    try:
        data = private_file.read(path)
    except PrivateFileError as error:
        raise LoginError(f"{error}: delete it, and `codelab login` again") from None
    if data is None:
        return {}
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
    logins = _read()
    yield logins
    try:
        private_file.write(file(), json.dumps(logins))
    except PrivateFileError as error:
        raise LoginError(str(error)) from None
