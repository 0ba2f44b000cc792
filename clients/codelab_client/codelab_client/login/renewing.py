"""The token of a kept login, renewed before it expires."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from codelab_client import private_folder
from codelab_client.login import kept
from codelab_client.login.errors import LoginError
from codelab_client.private_file import PrivateFileError, append_to
from codelab_client.session.errors import Unauthorized
from codelab_client.session.locking import try_to_lock
from codelab_client.session.tokens import expires_at, refresh_at, subject

_LOCKED_S = 60.0
_PAUSE_S = 0.1


@contextlib.asynccontextmanager
async def exclusively() -> AsyncIterator[None]:
    """Change logins in one process at a time, because many providers take a refresh token only once."""
    path = kept.file().with_suffix(".lock")
    try:
        private_folder.ensure(path.parent)
        lock_file = append_to(path)
    except PrivateFileError as error:
        raise LoginError(str(error)) from None
    except OSError as error:
        raise LoginError(f"{path}: {error.strerror}") from None
    with lock_file:
        until = time.monotonic() + _LOCKED_S
        while True:
            try:
                try_to_lock(lock_file)
                break
            except OSError:
                if time.monotonic() > until:
                    raise LoginError("Another codelab signs in all the time; try again") from None
            await asyncio.sleep(_PAUSE_S)
        yield


async def newest_token(server: str) -> str:
    """The token of the login at a server; empty if there is none. Raises Unauthorized if it cannot be had."""
    try:
        login = await asyncio.to_thread(kept.find, server)
        if login is None:
            return ""
        if not _is_due(login):
            return login.token
        async with exclusively():
            login = await asyncio.to_thread(kept.find, server)  # another process may have renewed it
            if login is None:
                return ""
            return await _renewed(server, login) if _is_due(login) else login.token
    except LoginError as error:
        raise Unauthorized(str(error)) from None


def _is_due(login: kept.Login) -> bool:
    due = refresh_at(login.token)
    return bool(login.refresh_token) and due is not None and due <= time.time()


async def _renewed(server: str, login: kept.Login) -> str:
    from codelab_client.login.provider import Client, Provider, Refusal

    try:
        provider = await Provider.discover(Client(login.issuer, login.client_id, login.audience))
        token_response = await provider.post(
            "token_endpoint", grant_type="refresh_token", refresh_token=login.refresh_token
        )
        new_login = provider.login(token_response, old=login)
        if subject(new_login.token) != subject(login.token):
            raise LoginError(f"{provider.client.host} gave the token of another user")
    except LoginError as error:
        if (expires_at(login.token) or 0) > time.time():
            return login.token  # it still counts; the next attempt may succeed
        again = " `codelab login` signs in again" if isinstance(error, Refusal) else ""
        raise LoginError(f"The login has expired and cannot be renewed: {error}.{again}") from None
    await asyncio.to_thread(kept.keep, server, new_login)
    return new_login.token
