"""A file of variables, NAME=VALUE lines, that count unless the environment says otherwise.

It may have secrets, so only its owner may read it. A value `keyring://SERVICE/NAME` is in the system's keyring.
"""

import asyncio
import io
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from codelab_local.host.errors import StartError

_KEYRING = "keyring://"
#: Seconds between two looks at the file.
_LOOK_S = 1.0


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file; none if there is no such file. Raises :class:`StartError`, without any value."""
    try:
        if not path.exists():
            return {}
        if not path.is_file():
            raise StartError(f"{path} is not a file", 2)
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise StartError(f"others can read or own {path}, which may have a key: run chmod 600 {path}", 2)
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read {path}: {error}", 2) from None
    from dotenv import dotenv_values

    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: _resolved(path, name, value) for name, value in values.items() if value is not None}


def with_env_file(environ: Mapping[str, str], path: Path) -> tuple[dict[str, str], str]:
    """The environment with a file's variables, and a note for the user.

    The file counts as a whole or not at all, so that its key is never sent to an endpoint that the environment names.
    """
    values = read_env_file(path)
    if not values:
        return dict(environ), ""
    duplicates = sorted(values.keys() & environ.keys())
    if duplicates:
        return dict(environ), f"{path} is not used, because the environment sets {', '.join(duplicates)}"
    return {**values, **environ}, f"variables of {path}: {', '.join(values)}"


async def changes(path: Path) -> AsyncGenerator[None]:
    """Yields at first, and whenever the file has appeared, changed or gone. Its folder may be missing, too."""
    while True:
        before = _identity(path)
        yield
        while _identity(path) == before:
            await asyncio.sleep(_LOOK_S)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Of what is in a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _resolved(path: Path, name: str, value: str) -> str:
    if not value.startswith(_KEYRING):
        return value
    service, _, user = value.removeprefix(_KEYRING).partition("/")
    try:
        import keyring

        secret = keyring.get_password(service, user)
    except Exception as error:  # what a keyring raises depends on the system
        raise StartError(f"{path}: the keyring does not give {name}: {error}") from None
    if not secret:
        raise StartError(f"{path}: {name} is not in the keyring: set it there again")
    return secret
