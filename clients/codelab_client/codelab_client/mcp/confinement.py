"""How the program of a server is started: one that the repository declares, in the sandbox of the commands.

Files that its command line does not name, such as modules, are not a part of what the user trusts. A command may change
them, so a program that loads them must reach no more than a command does, whatever they contain.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from codelab_client.config import ConfigError, SandboxConfig, load
from codelab_client.mcp.config import FILES, McpConfigError, ServerConfig
from codelab_client.mcp.named_files import named_by
from codelab_client.project import files_of
from codelab_client.sandbox import Access, Launch, Sandbox, Unsandboxed, choose, folders_above
from codelab_client.tools.processes import own_path

#: Where every sandbox has the system's own programs.
_SYSTEM = ("/usr", "/bin", "/sbin", "/opt", "/nix", "/gnu", "/snap")


@dataclass(frozen=True)
class Confinement:
    """How one server runs: the workspace, the sandbox if it is for it, and what the user allows in that."""

    server: ServerConfig
    workspace: Path
    sandbox: Sandbox
    allowed: SandboxConfig

    @classmethod
    def of(cls, server: ServerConfig, workspace: Path) -> "Confinement":
        """Find the sandbox, which takes a moment. Raises McpConfigError if a file of settings is wrong."""
        if server.url or not server.sandboxed:
            return cls(server, workspace.resolve(), Unsandboxed(), SandboxConfig())
        try:
            return cls(server, workspace.resolve(), choose().sandbox, load(workspace).sandbox)
        except ConfigError as error:
            raise McpConfigError(str(error)) from None

    def described(self) -> str:
        """What the server can reach, in a sentence for the user."""
        server = self.server
        if server.url:
            return "It runs elsewhere, and gets what the agent sends it."
        if not server.sandboxed:
            return "It runs with your rights and outside the sandbox."
        if not self.sandbox.guarantees.writes_only_there:
            return "No sandbox works here: it runs with your rights, and commands can change the modules it loads."
        may = "read and change" if server.writable else "read, and not change,"
        network = "the network" if self._has_network else "no network"
        return f"It runs in the sandbox ({self.sandbox.name}): it can {may} the workspace, and has {network}."

    def launch(self) -> Launch:
        """How to start the program. Raises McpConfigError if there is none, and OSError."""
        server = self.server
        # Not a program that happens to lie in the workspace, unless it is named by its path.
        program = server.command
        if os.sep not in program:
            program = shutil.which(program, path=own_path(os.environ, self.workspace)) or ""
            if not program:
                raise McpConfigError(f"there is no program {server.command}")
        return self.sandbox.launch((program, *server.args), self._access(program), self.workspace)

    def _access(self, program: str) -> Access:
        folders = [Path(folder).expanduser().resolve() for folder in self.allowed.readable]
        own = Path(program)
        visible_folders = (*map(Path, _SYSTEM), *folders, self.workspace)
        if own.is_absolute() and not any(map(own.is_relative_to, visible_folders)):
            folders.append(own)
        readable = tuple(folder for folder in folders if folder.exists())
        if not self.server.writable:
            return Access(readable=(*readable, self.workspace), network=self._has_network)
        files = [*named_by(self.server, self.workspace).files.values(), *files_of(self.workspace)]
        candidates = [*(self.workspace / name for name in (".git", *FILES)), *files]
        read_only = tuple(path for path in candidates if path.exists() and not path.is_symlink())
        writable = (self.workspace, *folders_above(files, self.workspace))
        return Access(writable, readable, read_only, self._has_network)

    @property
    def _has_network(self) -> bool:
        return self.server.network or self.allowed.network
