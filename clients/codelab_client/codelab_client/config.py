"""Settings in files: the user's `config.toml`, and the `.codelab/config.toml` of a workspace.

A workspace may come from anybody. So its file says only who answers; where the client connects, and what commands may
do, is the user's decision.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

#: What the file of a workspace may say.
_OF_WORKSPACE = ("agent", "model")
_MOST_BYTES = 100_000
#: How the terminal can tell that the agent waits for the user or has finished.
NOTIFY = ("bell", "title", "desktop")


class ConfigError(Exception):
    """A file cannot be read, or says what it cannot say. The text names the file."""


@dataclass(frozen=True)
class SandboxConfig:
    """What commands may do; see `tools.executor.Settings`."""

    network: bool = False
    readable: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """The settings for one workspace. An empty text: the file does not say."""

    url: str = ""
    rest_url: str = ""
    agent: str = ""
    model: str = ""
    notify: tuple[str, ...] = ()
    background: str = ""
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)


def config_folder() -> Path:
    """The folder of the user's files: `$XDG_CONFIG_HOME/codelab`, or `~/.config/codelab`."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".config") / "codelab"


def config_file() -> Path:
    """The user's file `config.toml`."""
    return config_folder() / "config.toml"


def load(workspace: Path) -> Config:
    """The settings for a workspace. Raises ConfigError.

    The user's table `[workspaces."/path"]` comes before the workspace's own file, and that before the user's general
    settings.
    """
    file = config_file()
    users = _read(file, is_users=True)
    workspaces = users.pop("workspaces", {})
    if not isinstance(workspaces, dict):
        raise ConfigError(f"{file}: `workspaces` must be a table of paths")
    config = _with(Config(), users, file)
    own = workspace / ".codelab" / "config.toml"
    if not (own.is_symlink() or own.parent.is_symlink()):
        workspace_settings = _read(own, is_users=False)
        for name in workspace_settings:
            if name not in _OF_WORKSPACE:
                raise ConfigError(f"{own}: `{name}` is not for a workspace to say; it can be set in {file}")
        config = _with(config, workspace_settings, own)
    for path, table in workspaces.items():
        if Path(path).expanduser().resolve() == workspace.resolve():
            if not isinstance(table, dict):
                raise ConfigError(f"{file}: workspaces.{path!r} must be a table")
            config = _with(config, table, file)
    return config


def _read(file: Path, *, is_users: bool) -> dict[str, Any]:
    """A file's content; empty if there is none, also for a device. is_users: it says what commands may do."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        raise ConfigError(f"{file}: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return {}
    if is_users and hasattr(os, "getuid") and (status.st_uid not in (0, os.getuid()) or status.st_mode & 0o002):
        os.close(descriptor)
        raise ConfigError(f"Others can change or own {file}, so it is not used")
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _with(config: Config, table: Mapping[str, Any], file: Path) -> Config:
    """The settings with those of a table in their place."""
    overrides: dict[str, Any] = {}
    for name, value in table.items():
        if name == "sandbox" and isinstance(value, dict):
            overrides[name] = _sandbox(config.sandbox, value, file)
        elif name == "notify":
            overrides[name] = _ways(value, file)
        elif name == "background" and value not in ("light", "dark"):
            raise ConfigError(f"{file}: `background` must be light or dark")
        elif name not in (field.name for field in fields(Config)):
            raise ConfigError(f"{file}: unknown key `{name}`")
        elif name == "sandbox" or not isinstance(value, str):
            raise ConfigError(f"{file}: `{name}` must be {'a table' if name == 'sandbox' else 'a text'}")
        else:
            overrides[name] = value
    return replace(config, **overrides)


def _ways(value: Any, file: Path) -> tuple[str, ...]:
    """How the terminal calls the user."""
    if not isinstance(value, list) or not all(item in NOTIFY for item in value):
        raise ConfigError(f"{file}: `notify` must be a list of {', '.join(NOTIFY)}")
    return tuple(value)


def _sandbox(sandbox: SandboxConfig, table: Mapping[str, Any], file: Path) -> SandboxConfig:
    overrides: dict[str, Any] = {}
    for name, value in table.items():
        if name == "network":
            if not isinstance(value, bool):
                raise ConfigError(f"{file}: `sandbox.network` must be true or false")
            overrides[name] = value
        elif name in ("readable", "variables"):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{file}: `sandbox.{name}` must be a list of texts")
            overrides[name] = tuple(value)
        else:
            raise ConfigError(f"{file}: unknown key `sandbox.{name}`")
    return replace(sandbox, **overrides)
