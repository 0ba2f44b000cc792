"""The local cloud: a SAM WebSocket application on one machine, with no account and no Docker.

`python -m codelab_local --template template.yaml` runs it; :class:`LocalCloud` runs it inside a test.

Every Lambda worker imports this package, so names are loaded on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codelab_local.testing import LocalCloud

__all__ = ["LocalCloud"]


def __getattr__(name: str) -> Any:
    if name == "LocalCloud":
        from codelab_local.testing import LocalCloud

        return LocalCloud
    raise AttributeError(name)
