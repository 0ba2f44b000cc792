"""Which MCP servers a workspace names: in `.mcp.json`, and in the files of Cursor and VS Code.

{"mcpServers": {NAME: {"command", "args"?, "env"?, "network"?, "writable"?} or {"url", "headers"?}}}; for VS Code
"servers" instead of "mcpServers".
"""

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codelab_client.safe_text import safe

FILE = ".mcp.json"
#: The files, and what holds the servers in them. Of two servers with one name, that of the earlier file counts.
FILES = {FILE: "mcpServers", ".cursor/mcp.json": "mcpServers", ".vscode/mcp.json": "servers"}
_MOST_BYTES = 200_000
_MOST_SERVERS = 20
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
#: A text, or a comment; and a text, or a comma behind the last item and what follows it.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*+")|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(\s*+[}\]])', re.DOTALL)
#: A value that an editor asks for.
_INPUT = re.compile(r"\$\{input:[^}]*\}")


class McpConfigError(Exception):
    """The file cannot be read, or does not describe servers. The text names the file."""


@dataclass(frozen=True)
class ServerConfig:
    """One server: a program (`command`, `args`, `env` besides a few variables of the user), or an address (`url`).

    sandboxed: the program runs in the sandbox. There, network: it has the network; writable: it may change the
    workspace.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    writable: bool = False
    sandboxed: bool = False

    def described(self) -> str:
        """All that the user needs to know before trusting it, as the file says it. No value can end its line."""
        if self.url:
            header_lines = "".join(f"\n  {_quoted(name)}: {_quoted(value)}" for name, value in self.headers.items())
            return f"{_quoted(self.url)}{header_lines}"
        variables = "".join(f"{_quoted(name)}={_quoted(value)} " for name, value in self.env.items())
        return f"$ {variables}{' '.join(map(_quoted, (self.command, *self.args)))}"

    def expanded(self, environment: Mapping[str, str] = os.environ, workspace: Path | None = None) -> "ServerConfig":
        """With the values of `${VARIABLE}`, `${env:VARIABLE}` and `${VARIABLE:-default}`, and of editors' own.

        Those are `workspaceFolder`, `workspaceFolderBasename` and `userHome`. Raises McpConfigError if one is not set.
        """
        editors = {"userHome": str(Path.home())}
        if workspace is not None:
            editors |= {"workspaceFolder": str(workspace), "workspaceFolderBasename": workspace.name}
        values = {**environment, **editors}

        def value(text: str) -> str:
            if (question := _INPUT.search(text)) is not None:
                raise McpConfigError(
                    f"{self.name} needs {safe(question[0])[:60]}, for which only the editor asks: name a variable of "
                    "the environment instead, as ${NAME}"
                )
            return _VARIABLE.sub(found, text)

        def found(match: "re.Match[str]") -> str:
            name, default = match[1], match[2]
            if name not in values and default is None:
                raise McpConfigError(f"{self.name} needs the variable {name}, which is not set")
            return values.get(name, default or "")

        return replace(
            self,
            command=value(self.command),
            args=tuple(map(value, self.args)),
            env={name: value(text) for name, text in self.env.items()},
            url=value(self.url),
            headers={name: value(text) for name, text in self.headers.items()},
        )


def workspace_servers(workspace: Path, say: Callable[[str], None] = lambda _: None) -> list[ServerConfig]:
    """The servers that a workspace names. Nothing is started. Raises McpConfigError if `.mcp.json` names none at all.

    say: tells what is wrong with an entry, or with a file of an editor, which is then left out.
    """
    servers: dict[str, ServerConfig] = {}
    for name, key in FILES.items():
        if (workspace / name).parent.is_symlink():
            continue
        try:
            named_servers = _servers(workspace / name, key, say)
        except McpConfigError as error:
            if name == FILE:
                raise
            say(f"{error}; this file is left out")
            continue
        for server in named_servers:
            servers.setdefault(server.name.casefold(), server)
    return list(servers.values())[:_MOST_SERVERS]


def _servers(file: Path, key: str, say: Callable[[str], None]) -> list[ServerConfig]:
    """The servers that a file names."""
    text = _text(file)
    if text is None:
        return []
    try:
        content = json.loads(text if file.name == FILE else _without_comments(text))
        if key not in content and file.name != FILE:
            return []  # It may have other things of the editor.
        entries = content[key]
        if len(entries) > _MOST_SERVERS:
            raise McpConfigError(f"{file}: more than {_MOST_SERVERS} servers")
        servers: dict[str, ServerConfig] = {}
        for name, fields in entries.items():
            try:
                server = _server(name, fields, file)
                if name.casefold() in servers:
                    raise McpConfigError(f"{file}: {name} differs from another server's name in capitals only")
                servers[name.casefold()] = server
            except McpConfigError as error:
                say(f"{error}; this server is left out")
        return list(servers.values())
    except (ValueError, RecursionError) as error:
        raise McpConfigError(f"{file}: not JSON: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise McpConfigError(f'{file} must look like {{"{key}": {{"name": {{"command": "…"}}}}}}') from None


def _without_comments(text: str) -> str:
    """What VS Code takes as JSON, as JSON: without comments, and without a comma behind the last item."""
    plain = _COMMENT.sub(lambda match: match[1] or " ", text)
    return _LAST_COMMA.sub(lambda match: match[1] or match[2], plain)


def _server(name: str, fields: Any, file: Path) -> ServerConfig:
    if not _NAME.fullmatch(name):
        raise McpConfigError(f"{file}: a server's name has 1 to 32 characters of A-Z a-z 0-9 _ -, not {name[:40]!r}")
    place = f"{file}: {name}"
    if not isinstance(fields, dict):
        raise McpConfigError(f"{place} must be an object")
    kind = fields.get("type", "http" if "url" in fields else "stdio")
    if kind not in ("stdio", "http", "streamable-http", "streamableHttp"):
        raise McpConfigError(f"{place}: only stdio and streamable HTTP are supported, not {str(kind)[:40]!r}")
    key = "command" if kind == "stdio" else "url"
    if not isinstance(fields.get(key), str) or not fields[key]:
        raise McpConfigError(f"{place} needs a {key}")
    args = fields.get("args", [])
    if not isinstance(args, list) or not all(isinstance(argument, str) for argument in args):
        raise McpConfigError(f"{place}: args must be a list of texts")
    if kind == "stdio":
        return ServerConfig(
            name,
            fields["command"],
            tuple(args),
            _texts(fields, "env", place),
            network=_is_set(fields, "network", place),
            writable=_is_set(fields, "writable", place),
            sandboxed=True,
        )
    return ServerConfig(name, url=fields["url"], headers=_texts(fields, "headers", place))


def _texts(fields: Mapping[str, Any], name: str, place: str) -> dict[str, str]:
    texts = fields.get(name, {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise McpConfigError(f"{place}: {name} must be an object of texts")
    return dict(texts)


def _is_set(fields: Mapping[str, Any], name: str, place: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise McpConfigError(f"{place}: {name} must be true or false")
    return value


def _text(file: Path) -> str | None:
    """The file's text; None if it does not exist or is not a regular file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise McpConfigError(f"{file} has more than {_MOST_BYTES:,} bytes")
    return data.decode("utf-8", "replace")


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w@%+=:,./?&~${}-]+", text, re.ASCII) else safe(repr(text))
