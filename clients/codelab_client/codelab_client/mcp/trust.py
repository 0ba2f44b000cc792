"""Which MCP servers of which workspace the user trusts, exactly as they are: their description, files and tools."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from codelab_client.mcp.config import ServerConfig
from codelab_client.mcp.named_files import Named, named_by
from codelab_client.trust import Decision, TrustFile


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
        self._file = TrustFile(state, workspace)

    def subject(self, server: ServerConfig) -> Subject:
        """A server as it is now. Reads the files that it names."""
        files = named_by(server, self._file.workspace)
        fields = (server.command, server.args, dict(server.env), server.url, dict(server.headers))
        optional_parts = [content] if (content := files.digest()) else []
        optional_parts += [name for name in ("network", "writable") if getattr(server, name)]
        return Subject(server, files, self._file.key(server.name, *fields, *optional_parts))

    def decision(self, subject: Subject) -> Decision | None:
        """What the user has decided about a server; None if nothing."""
        return self._file.decision(subject.key)

    def decide(self, subject: Subject, decision: Decision | None) -> None:
        """Record a decision about a server, or forget it. If that fails, the user is asked again next time.

        A decision about it as it was before is forgotten; its tools stay trusted, each as it was offered.
        """
        self._file.decide(subject.key, subject.server.name, decision, subject.files.files.values())

    def knows(self, server: ServerConfig) -> bool:
        """Whether there is a decision about a server of this name, whatever it was then."""
        return self._file.knows(server.name)

    def tools(self, subject: Subject) -> frozenset[str] | None:
        """The digests of the tools that the user trusts of a server; None before the first decision about them."""
        tools = self._file.entry(subject.key).get("tools")
        return frozenset(map(str, tools)) if isinstance(tools, list) else None

    def trust_tools(self, subject: Subject, digests: Iterable[str]) -> None:
        """Trust these tools of a server, and no others any more."""
        self._file.store(subject.key, subject.server.name, tools=sorted(digests))

    def chosen(self, subject: Subject) -> tuple[str, ...]:
        """The patterns of the names of those tools of a server that the user wants; none if all."""
        patterns = self._file.entry(subject.key).get("only")
        return tuple(map(str, patterns)) if isinstance(patterns, list) else ()

    def choose(self, subject: Subject, patterns: Iterable[str]) -> None:
        """The agent gets those tools of a server alone whose names match; all without patterns."""
        self._file.store(subject.key, subject.server.name, only=list(patterns))
