"""The folders of a session: the one in which the agent works, and others that it may only read.

A call names a file of another folder with the folder's name before its path, such as `+docs/api/index.md`: paths of
calls are relative, and the server knows of one folder only.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Begins the names of the other folders.
_MARK = "+"
_NAME_CHARS = 60


class FolderRefused(Exception):
    """A folder cannot be one of a session's, with the reason."""


@dataclass(frozen=True)
class Folders:
    """root: in which the agent works. other_folders: those that it may only read, by name.

    All are absolute and without links.
    """

    root: Path
    other_folders: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, other_folders: Iterable[Path]) -> "Folders":
        """Name the other folders, which are absolute and without links. What is in the root needs no name.

        Raises FolderRefused for a folder that has the root in it, or that shares something with what the client keeps:
        commands may read it, and there are tokens.
        """
        from codelab_client.config import config_folder  # late: an editor waits for the answer to `initialize`
        from codelab_client.session.journal import state_folder

        by_name: dict[str, Path] = {}
        for folder in dict.fromkeys(other_folders):
            if folder.is_relative_to(root):
                continue
            if root.is_relative_to(folder):
                raise FolderRefused(f"{folder} has the session's folder {root} in it: open a session there instead")
            for client_folder in (state_folder().resolve(), config_folder().resolve()):
                if client_folder.is_relative_to(folder) or folder.is_relative_to(client_folder):
                    raise FolderRefused(f"{folder} has files of this client in it, or is one of them: {client_folder}")
            by_name[_name(folder, root, by_name)] = folder
        return cls(root, by_name)

    def absolute(self, names: Sequence[str]) -> Path:
        """The file that a call names."""
        top, *below = names or (".",)
        folder = self.other_folders.get(top)
        return self.root.joinpath(*names) if folder is None else folder.joinpath(*below)

    def holding(self, path: Path) -> tuple[Path, str] | None:
        """The folder that a path is in by its words alone, and the path as calls name it; None if it is in none."""
        for name, folder in {"": self.root, **self.other_folders}.items():
            if path.is_relative_to(folder):
                return folder, Path(name, path.relative_to(folder)).as_posix()
        return None


def _name(folder: Path, root: Path, folders: Mapping[str, Path]) -> str:
    """A name with which no path in the root begins at this moment, and no other folder's name."""
    word = "".join(character if character.isalnum() or character in "-_." else "_" for character in folder.name)
    names = {name.casefold() for name in folders}
    number = 1
    while True:
        name = f"{_MARK}{word[:_NAME_CHARS]}{'' if number == 1 else f'-{number}'}"
        if name.casefold() not in names and not os.path.lexists(root / name):
            return name
        number += 1
