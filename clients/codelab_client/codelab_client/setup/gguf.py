"""`codelab setup --gguf FILE`: a model file of the user's, which the local cloud of the checkout then serves.

llama.cpp's server gets an environment of its own in the checkout (`.venv-llama`), which `make` installs.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from codelab_client import local_cloud
from codelab_client.safe_text import safe
from codelab_client.setup import endpoint
from codelab_client.setup.errors import SetupError
from codelab_client.setup.model_file import Model, checked

#: What the local cloud's server reserves, in tokens.
WINDOW = 16_384
_MAGIC = b"GGUF"
_SERVER = Path("local", "codelab_local", "model_file", "llama_server.py")
#: Seconds for reading a large file from a slow disk, and for the end of the server.
_START_S, _END_S = 300.0, 10.0


def model_of(text: str, name: str | None, before: Model | None) -> Model:
    """The model in a file, at a port of this machine: the one it had before, else a free one. Raises SetupError."""
    try:
        path = Path(text).expanduser().resolve(strict=True)
        with path.open("rb") as file:
            is_model = file.read(len(_MAGIC)) == _MAGIC
    except (OSError, RuntimeError, ValueError) as error:
        raise SetupError(f"{text}: {getattr(error, 'strerror', None) or error}") from None
    if not is_model:
        raise SetupError(f"{path} is not a model in the format GGUF")
    if any(character in "'\\" or not character.isprintable() for character in str(path)):
        raise SetupError("The path of the model must have no quotes, backslashes and line breaks: rename or link it")
    url = before.url if before is not None and before.gguf == str(path) else f"http://127.0.0.1:{_free_port()}/v1"
    return Model("llama.cpp", url, checked(name or path.stem.replace(" ", "-"), "The model's name"), gguf=str(path))


@contextlib.asynccontextmanager
async def served(model: Model, checkout: Path) -> AsyncIterator[None]:
    """Serve the file during the block, unless the local cloud does. Raises SetupError."""
    if await _answers(model):
        yield
        return
    _, _, port = model.host.rpartition(":")
    threads = max(1, (os.cpu_count() or 1) - 1)
    process = await asyncio.create_subprocess_exec(
        checkout / ".venv-llama" / "bin" / "python",
        checkout / _SERVER,
        *(model.gguf, model.name, str(WINDOW), str(threads), port),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_S):
            if not await process.stdout.readline():
                raise SetupError(f"llama.cpp cannot serve {model.gguf}: is it a whole model, is there memory for it?")
        yield
    except TimeoutError:
        raise SetupError(f"llama.cpp does not serve {model.gguf} after {_START_S:.0f} seconds") from None
    finally:
        await _end(process)


async def install() -> Path:
    """Have llama.cpp in the checkout. Returns the checkout. Raises SetupError."""
    checkout = local_cloud.checkout()
    if checkout is None:
        raise SetupError("Only the local cloud of a checkout serves model files: run the `codelab` of its .venv")
    if not (checkout / ".venv-llama" / ".synced").exists():
        sys.stderr.write(safe("Installing llama.cpp in .venv-llama of the checkout …\n"))
    process = await asyncio.create_subprocess_exec(
        "make", "--silent", ".venv-llama/.synced", cwd=checkout, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr
    )
    if await process.wait():
        raise SetupError("llama.cpp cannot be installed here; a llama-server that you start yourself is found, too")
    return checkout


async def _answers(model: Model) -> bool:
    """Whether the local cloud serves it already."""
    try:
        return model.name in await endpoint.models(model, 1.0)
    except SetupError:
        return False


async def _end(process: asyncio.subprocess.Process) -> None:
    """It ends when its standard input does."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
