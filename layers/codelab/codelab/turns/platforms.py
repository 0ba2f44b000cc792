"""What `hello` says about the systems on which a session's clients run."""

from typing import TypedDict

from codelab.protocol import limits
from codelab.sessions.register import Connection
from codelab.turns.draft import Draft

#: Names of systems with POSIX's paths and shells.
_POSIX = frozenset({"linux", "macos", "darwin", "freebsd", "openbsd", "netbsd"})


def is_posix(connection: Connection) -> bool:
    """Does the connection say that it is on such a system?"""
    return connection.platform.casefold() in _POSIX


def path_chars(draft: Draft) -> int:
    """The most characters of a path."""
    return limits.LONG_PATH_CHARS if path_rules(draft)["posix_paths"] else limits.PATH_CHARS


class PathRules(TypedDict):
    """Which paths a call may name: the flags of `Tool.check`."""

    lenient_paths: bool
    posix_paths: bool


def path_rules(draft: Draft) -> PathRules:
    """The rules for calls that are made now.

    Those of POSIX if every connection that may execute them says so: on Windows, `a:b` is a stream of the file `a`.
    """
    executors = [connection for connection in draft.register.connections.values() if not connection.viewer]
    is_on_posix = bool(executors) and all(map(is_posix, executors))
    return {"lenient_paths": draft.settings.paths_lenient, "posix_paths": is_on_posix}
