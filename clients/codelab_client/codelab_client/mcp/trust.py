"""Which MCP servers of which workspace the user trusts, exactly as they are: their description, files and tools."""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codelab_client import private_file, private_folder
from codelab_client.mcp.config import ServerConfig
from codelab_client.mcp.named_files import Named, named_by
from codelab_client.private_file import PrivateFileError

Decision = Literal["trusted", "denied"]


@dataclass(frozen=True)
class Subject:
    """A server as it is at one moment, which the user can decide about.

    files: what its command line names in the workspace. key: changes when anything of it changes.
    """

    server: ServerConfig
    files: Named
    key: str


class Trust:
    """The user's decisions, in a file of `state`.

    A server that is described differently is another one, and so is one with other content in the files of the
    workspace that its command line names. Its tools are trusted each as the server offered it then.
    """

    def __init__(self, state: Path, workspace: Path) -> None:
        self._file, self._workspace = state / "mcp_trust.json", workspace.resolve()

    def subject(self, server: ServerConfig) -> Subject:
        """A server as it is now. Reads the files that it names."""
        files = named_by(server, self._workspace)
        fields = (server.command, server.args, dict(server.env), server.url, dict(server.headers))
        optional_parts = [content] if (content := files.digest()) else []
        optional_parts += [name for name in ("network", "writable") if getattr(server, name)]
        description = json.dumps([str(self._workspace), server.name, *fields, *optional_parts], sort_keys=True)
        return Subject(server, files, hashlib.sha256(description.encode("utf-8", "surrogatepass")).hexdigest())

    def decision(self, subject: Subject) -> Decision | None:
        """What the user has decided about a server; None if nothing."""
        decision = _entry(self._read().get(subject.key)).get("decision")
        return decision if decision in ("trusted", "denied") else None

    def decide(self, subject: Subject, decision: Decision | None) -> None:
        """Record a decision about a server, or forget it. If that fails, the user is asked again next time.

        A decision about it as it was before is forgotten; its tools stay trusted, each as it was offered.
        """
        entries, place = self._read(), self._place(subject.server)
        before = [key for key, entry in entries.items() if key == subject.key or _entry(entry).get("place") == place]
        entry = {name: value for key in before for name, value in _entry(entries.pop(key)).items()}
        if decision is not None:
            files = sorted({str(path.relative_to(self._workspace)) for path in subject.files.files.values()})
            entries[subject.key] = {**entry, "decision": decision, "place": place, "files": files}
        self._write(entries)

    def knows(self, server: ServerConfig) -> bool:
        """Whether there is a decision about a server of this name, whatever it was then."""
        return any(_entry(entry).get("place") == self._place(server) for entry in self._read().values())

    def tools(self, subject: Subject) -> frozenset[str] | None:
        """The digests of the tools that the user trusts of a server; None before the first decision about them."""
        tools = _entry(self._read().get(subject.key)).get("tools")
        return frozenset(map(str, tools)) if isinstance(tools, list) else None

    def trust_tools(self, subject: Subject, digests: Iterable[str]) -> None:
        """Trust these tools of a server, and no others any more."""
        entries = self._read()
        entry = {"place": self._place(subject.server), **_entry(entries.get(subject.key))}
        self._write({**entries, subject.key: {**entry, "tools": sorted(digests)}})

    def files(self) -> list[Path]:
        """The files of the workspace that trusted servers name, as far as they exist, without links."""
        here = json.dumps([str(self._workspace)])[:-1] + ","
        names: set[str] = set()
        for entry in map(_entry, self._read().values()):
            if entry.get("decision") == "trusted" and str(entry.get("place")).startswith(here):
                names.update(map(str, entry["files"] if isinstance(entry.get("files"), list) else ()))
        paths = (self._workspace / name for name in sorted(names))
        return [path for path in paths if path.is_file() and path.resolve() == path]

    def _place(self, server: ServerConfig) -> str:
        return json.dumps([str(self._workspace), server.name])

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
