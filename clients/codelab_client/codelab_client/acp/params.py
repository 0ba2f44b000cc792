"""Reads the params of the editor's requests. Each function raises RpcError INVALID_PARAMS with the field's name."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelab_client.acp.jsonrpc import INVALID_PARAMS, RpcError
from codelab_client.folders import FolderRefused, Folders

_MOST_FOLDERS = 16


def invalid(message: str) -> RpcError:
    """The error for params that are not as the protocol wants them."""
    return RpcError(INVALID_PARAMS, message)


def text(params: Mapping[str, Any], name: str, limit: int = 4_096) -> str:
    """A text that must be there."""
    value = params.get(name)
    if not isinstance(value, str) or not value or len(value) > limit:
        raise invalid(f"{name} must be a text of 1 to {limit} characters")
    return value


def optional_text(params: Mapping[str, Any], name: str) -> str | None:
    """A text that may be absent or null."""
    return None if params.get(name) is None else text(params, name)


def objects(params: Mapping[str, Any], name: str, limit: int = 1_000) -> list[dict[str, Any]]:
    """A list of objects; empty if it is absent or null."""
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > limit or not all(isinstance(item, dict) for item in value):
        raise invalid(f"{name} must be a list of at most {limit} objects")
    return value


def folder(params: Mapping[str, Any]) -> Path:
    """The existing folder that `cwd` names, without links."""
    return _folder(text(params, "cwd"), "cwd")


def folders(params: Mapping[str, Any]) -> Folders:
    """The folder that `cwd` names, and those of `additionalDirectories`, all of which must exist."""
    names = params.get("additionalDirectories") or []
    if not isinstance(names, list) or len(names) > _MOST_FOLDERS or not all(isinstance(name, str) for name in names):
        raise invalid(f"additionalDirectories must be a list of at most {_MOST_FOLDERS} texts")
    try:
        return Folders.of(folder(params), [_folder(name, "additionalDirectories") for name in names])
    except FolderRefused as refusal:
        raise invalid(f"additionalDirectories: {refusal}") from None


def _folder(name: str, param: str) -> Path:
    try:
        if not Path(name).is_absolute():
            raise invalid(f"{param} must be an absolute path")
        path = Path(name).resolve(strict=True)
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError):
        raise invalid(f"{param}: there is no folder {name!r}") from None
    if not is_folder or path == Path(path.anchor):
        raise invalid(f"{param} must be a folder, and not the root of the file system")
    return path


@dataclass(frozen=True)
class Editor:
    """What the editor offers, from the params of `initialize`. What it does not say, it does not offer."""

    reads: bool = False
    writes: bool = False
    terminals: bool = False
    #: It runs this command in a terminal for the user to log in.
    logs_in: bool = False
    #: It shows forms (`elicitation/create`).
    forms: bool = False
    #: It takes the updates `notice`, `compaction_update`, and (not stable yet) `plan_update`.
    notices: bool = False
    compactions: bool = False
    plans: bool = False
    #: Config options may be booleans.
    booleans: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Editor":
        """Read `clientCapabilities`; what is malformed counts as absent."""
        capabilities = _object(params.get("clientCapabilities"))
        files, session = _object(capabilities.get("fs")), _object(capabilities.get("session"))
        return cls(
            reads=files.get("readTextFile") is True,
            writes=files.get("writeTextFile") is True,
            terminals=capabilities.get("terminal") is True,
            logs_in=_object(capabilities.get("auth")).get("terminal") is True,
            forms=isinstance(_object(capabilities.get("elicitation")).get("form"), dict),
            notices=isinstance(session.get("notices"), dict),
            compactions=isinstance(session.get("compaction"), dict),
            plans=isinstance(capabilities.get("plan"), dict),
            booleans=isinstance(_object(session.get("configOptions")).get("boolean"), dict),
        )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
