"""What of a workspace the user trusts, each thing exactly as it was then: decisions in a file of the client's state."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from codelab_client import private_file, private_folder
from codelab_client.private_file import PrivateFileError

Decision = Literal["trusted", "denied"]
#: It has the name of the things that were the first to be trusted.
_FILE = "mcp_trust.json"


class TrustFile:
    """The decisions, in `state`. A thing has a name in its workspace, and a key that changes when anything of it does.

    A change asks again: a decision counts for one key, and a new one replaces that of the same name.
    """

    def __init__(self, state: Path, workspace: Path) -> None:
        self._file, self.workspace = state / _FILE, workspace.resolve()

    def key(self, *description: Any) -> str:
        """The key of a thing of this workspace that is described so (JSON)."""
        text = json.dumps([str(self.workspace), *description], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def entry(self, key: str) -> Mapping[str, Any]:
        """What is stored of a thing; nothing if nobody has decided about it."""
        return _entry(self._read().get(key))

    def decision(self, key: str) -> Decision | None:
        """What the user has decided; None if nothing."""
        decision = self.entry(key).get("decision")
        return decision if decision in ("trusted", "denied") else None

    def decide(self, key: str, name: str, decision: Decision | None, files: Iterable[Path] = ()) -> None:
        """Record a decision, or forget it (None). If that fails, the user is asked again next time.

        A decision about the thing as it was before is forgotten; what else is stored of it stays.
        files: those of the workspace, without links, that commands must not change as long as it is trusted.
        """
        entries, place = self._read(), self._place(name)
        before = [
            stored_key
            for stored_key, entry in entries.items()
            if stored_key == key or _entry(entry).get("place") == place
        ]
        entry = {field: value for stored_key in before for field, value in _entry(entries.pop(stored_key)).items()}
        if decision is not None:
            names = sorted({str(path.relative_to(self.workspace)) for path in files})
            entries[key] = {**entry, "decision": decision, "place": place, "files": names}
        self._write(entries)

    def store(self, key: str, name: str, **fields: Any) -> None:
        """Store something else of a thing."""
        entries = self._read()
        self._write({**entries, key: {"place": self._place(name), **_entry(entries.get(key)), **fields}})

    def knows(self, name: str) -> bool:
        """Whether there is a decision about a thing of this name, whatever it was then."""
        return any(_entry(entry).get("place") == self._place(name) for entry in self._read().values())

    def files(self) -> list[Path]:
        """The files of the workspace that trusted things name, as far as they exist, without links."""
        here = json.dumps([str(self.workspace)])[:-1] + ","
        names: set[str] = set()
        for entry in map(_entry, self._read().values()):
            if entry.get("decision") == "trusted" and str(entry.get("place")).startswith(here):
                names.update(map(str, entry["files"] if isinstance(entry.get("files"), list) else ()))
        paths = (self.workspace / name for name in sorted(names))
        return [path for path in paths if path.is_file() and path.resolve() == path]

    def _place(self, name: str) -> str:
        return json.dumps([str(self.workspace), name])

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(private_file.read(self._file, secret=False) or b"{}")
        except (PrivateFileError, ValueError, RecursionError):  # nobody knows who has decided
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, entries: dict[str, Any]) -> None:
        with contextlib.suppress(PrivateFileError):
            private_folder.ensure(self._file.parent)
            private_file.write(self._file, json.dumps(entries))


def _entry(value: Any) -> dict[str, Any]:
    """A stored decision. Older versions of the client stored no more than the decision itself."""
    return value if isinstance(value, dict) else {"decision": value} if isinstance(value, str) else {}
