"""Which dangerous calls run without a user: a file that the user writes.

# Every key besides `tool` names an argument. Paths are globs; anything else must be exactly equal.
[[allow]]
tool = "write_file"
path = "docs/**"

[[allow]]
tool = "run_command"
command = "make test"
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATHS = ("path", "from", "to")


class PolicyError(Exception):
    """The policy file cannot be read. The text says why."""


@dataclass(frozen=True)
class Policy:
    """Allows the calls that match one of its entries. Each entry: a tool's name and arguments that must match."""

    allowed: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def load(cls, path: Path) -> "Policy":
        """Read a policy file. Raises PolicyError."""
        try:
            found = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise PolicyError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        entries = found.pop("allow", [])
        if found:
            raise PolicyError(f"{path}: unknown key {next(iter(found))!r}; a policy has [[allow]] entries")
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise PolicyError(f"{path}: `allow` must be a list of tables: [[allow]]")
        for entry in entries:
            if not isinstance(entry.get("tool"), str):
                raise PolicyError(f"{path}: every [[allow]] needs a tool")
        return cls(tuple(entries))

    def allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call may run without a user."""
        return any(entry["tool"] == tool and _matches(entry, arguments) for entry in self.allowed)


def _matches(entry: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    for name, wanted in entry.items():
        if name == "tool":
            continue
        found = arguments.get(name)
        if name in _PATHS and isinstance(wanted, str):
            if not isinstance(found, str) or not _glob(wanted).fullmatch(found):
                return False
        elif found != wanted or type(found) is not type(wanted):
            return False
    return True


def _glob(pattern: str) -> "re.Pattern[str]":
    """`*` and `?` match within one name, `**` also slashes."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    turned = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(turned.get(part) or re.escape(part) for part in parts), re.DOTALL)
