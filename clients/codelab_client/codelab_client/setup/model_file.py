"""The file that names the model: `model.env` beside the user's `config.toml`, which only the user can read.

It has the variables that `make run` reads, as lines NAME=VALUE. It is outside every workspace, so that no agent reads
the key. Where there is a keyring, that keeps the key, and the file says so: LLM_API_KEY=keyring://SERVICE/NAME.
"""

import contextlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from codelab_client import private_file
from codelab_client.config import config_folder
from codelab_client.private_file import PrivateFileError
from codelab_client.session.address import is_secure
from codelab_client.setup.errors import SetupError
from codelab_client.system_keyring import kept_in_keyring, system_keyring

_SERVICE = "codelab-model"
_KEYRING = "keyring://"
_CAPABILITIES = "LLM_CAPABILITIES"
_OWN_NAMES = ("LLM_PROVIDER", "LLM_BASE_URL", "LLM_MODEL", "LLM_API_KEY", "LLM_GGUF")
#: What needs no quotes in the file, whoever reads it.
_TEXT = re.compile(r"[A-Za-z0-9_.:/@+=,~%?&!*()\[\]^|;<>{}-]+")
_MOST_CHARS = 4_000
#: Where endpoints are asked, which is not a part of their address.
_CHAT_PATHS = ("/chat/completions", "/responses", "/messages", "/chat")


@dataclass(frozen=True)
class Model:
    """A model, and how it is reached.

    strategy: how it is asked; empty for the way that its provider's table begins with, None if nobody has tried.
    gguf: the file that the local cloud serves at the address; empty if somebody else serves it. window: its tokens; 0
    for what the server knows of the model.
    """

    provider: str
    url: str
    name: str
    key: str = field(default="", repr=False)
    strategy: str | None = None
    gguf: str = ""
    window: int = 0

    @property
    def host(self) -> str:
        """Who is asked."""
        return urlsplit(self.url).netloc


def file() -> Path:
    """The file."""
    return config_folder() / "model.env"


def checked(text: str, label: str) -> str:
    """A value that the file can have. Raises SetupError, which never shows the value."""
    value = text.strip()
    if not value or len(value) > _MOST_CHARS or not _TEXT.fullmatch(value):
        raise SetupError(f"{label} must be one line of letters, digits and signs, without spaces and quotes")
    return value


def checked_url(text: str) -> str:
    """The address of an endpoint. Raises SetupError."""
    url = checked(text, "The address").rstrip("/")
    url = next((url.removesuffix(path) for path in _CHAT_PATHS if url.endswith(path)), url)
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https") or parts.username is not None:
        raise SetupError("The address must look like https://host/v1, without a user name")
    if parts.query or parts.fragment:
        raise SetupError("The address must end with its path, usually /v1")
    return url


def check_secrecy(model: Model) -> None:
    """Raises SetupError if others could read the key on its way to the endpoint."""
    if model.key and not is_secure(model.url):
        raise SetupError(
            f"The key is not sent to {model.host}, because the connection is not encrypted and anybody on the way "
            "could read it: use https://"
        )


def read() -> Model | None:
    """The model that was set up; None if none was. Raises SetupError if the file or the key cannot be read."""
    values = _values(_content())
    if not values.get("LLM_BASE_URL"):
        return None
    key = values.get("LLM_API_KEY", "")
    if key.startswith(_KEYRING):
        service, _, name = key.removeprefix(_KEYRING).partition("/")
        try:
            keyring = system_keyring()
            key = (keyring.get_password(service, name) or "") if keyring is not None else ""
        except Exception as error:  # what a keyring raises depends on the system
            raise SetupError(f"The keyring does not give the key: {error}") from None
        if not key:
            raise SetupError("The key is gone from the keyring: `codelab setup` asks for it again")
    name, gguf = values.get("LLM_MODEL", ""), values.get("LLM_GGUF", "")
    return Model(values.get("LLM_PROVIDER", "openai"), values["LLM_BASE_URL"], name, key, gguf=gguf)


def read_or_none() -> Model | None:
    """The same, and None also if the keyring does not give the key."""
    _content()
    try:
        return read()
    except SetupError:
        return None


def keep(model: Model, *, in_keyring: bool = True) -> str:
    """Keep the model in place of an earlier one. Returns the name of the keyring that has the key, or an empty text.

    Raises SetupError.
    """
    content = _content()
    capabilities = _capabilities(_values(content).get(_CAPABILITIES, ""), model)
    ring = kept_in_keyring(_SERVICE, model.provider, model.key) if model.key and in_keyring else ""
    values = {
        "LLM_PROVIDER": model.provider,
        "LLM_BASE_URL": model.url,
        "LLM_MODEL": model.name,
        "LLM_API_KEY": f"{_KEYRING}{_SERVICE}/{model.provider}" if ring else model.key,
    }
    if model.gguf:
        values["LLM_GGUF"] = f"'{model.gguf}'"
    if capabilities is not None:
        content = _without(content, _CAPABILITIES)
        values |= {_CAPABILITIES: f"'{capabilities}'"} if capabilities else {}
    _write("".join(f"{name}={value}\n" for name, value in values.items()) + _without(content, *_OWN_NAMES))
    return ring


def _capabilities(old_json: str, model: Model) -> str | None:
    """What the file then says of models, as JSON without a single quote; None if that does not change.

    Raises SetupError.
    """
    if model.strategy is None and not model.window:
        return None
    try:
        rows = dict(json.loads(old_json or "{}"))
        settings = dict(rows.get(model.name, {}))
    except (ValueError, TypeError):
        raise SetupError(f"{_CAPABILITIES} in {file()} is not a JSON object of objects: mend or delete it") from None
    before = dict(settings)
    if model.strategy is not None:
        settings.pop("strategy", None)
    settings |= {"strategy": model.strategy} if model.strategy else {}
    settings |= {"window": model.window} if model.window else {}
    if settings == before:
        return None
    rows.pop(model.name, None)
    rows |= {model.name: settings} if settings else {}
    return json.dumps(rows).replace("'", r"\u0027") if rows else ""


def has_keyring_entry() -> bool:
    """Whether the keyring has the key, as far as the file can be read."""
    try:
        return _values(_content()).get("LLM_API_KEY", "").startswith(_KEYRING)
    except SetupError:
        return False


def forget() -> None:
    """Forget the model and its key. Raises SetupError."""
    content = _content()
    reference = _values(content).get("LLM_API_KEY", "").removeprefix(f"{_KEYRING}{_SERVICE}/")
    with contextlib.suppress(Exception):  # there may be no keyring, or no such key in it
        system_keyring().delete_password(_SERVICE, reference)
    if other_lines := _without(content, *_OWN_NAMES):
        _write(other_lines)
    else:
        file().unlink(missing_ok=True)


def _content() -> str:
    try:
        return (private_file.read(file()) or b"").decode("utf-8", "replace")
    except PrivateFileError as error:
        raise SetupError(f"{error}. `chmod 600` it if it is yours, or delete it") from None


def _values(content: str) -> dict[str, str]:
    from io import StringIO

    from dotenv import dotenv_values

    return {name: value or "" for name, value in dotenv_values(stream=StringIO(content), interpolate=False).items()}


def _without(content: str, *names: str) -> str:
    """The lines of the file that set none of these variables."""
    own_line = re.compile(rf"\s*(?:export\s+)?({'|'.join(names)})\s*=")
    return "".join(f"{line}\n" for line in content.splitlines() if not own_line.match(line))


def _write(content: str) -> None:
    try:
        private_file.write(file(), content)
    except PrivateFileError as error:
        raise SetupError(str(error)) from None
