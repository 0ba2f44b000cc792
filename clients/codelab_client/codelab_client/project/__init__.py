"""What a workspace brings for the client to obey: permissions, commands, hooks and agents.

Anybody may have written it. So it may narrow what runs at once, and widen or run anything only after the user has
trusted it, exactly as it is.
"""

from pathlib import Path

#: Files of a workspace that say what runs: commands must not change them, or they could take back what is denied.
FILES = (".codelab/permissions.toml", ".codelab/hooks.toml")


def files_of(root: Path) -> list[Path]:
    """Those that a workspace has. root: without links."""
    paths = (root / name for name in FILES)
    return [path for path in paths if path.is_file() and path.resolve() == path]
