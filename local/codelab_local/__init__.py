"""The local cloud: a SAM WebSocket application on one machine, with no account and no Docker.

`python -m codelab_local --template template.yaml` runs it; :class:`LocalCloud` runs it inside a test.

Every Lambda worker imports this package, so names are loaded on first use. Nothing is imported here, not even `typing`:
until `__main__.py` has begun, Ctrl-C ends with a traceback.
"""

TYPE_CHECKING = False  # Type checkers take it as true.
if TYPE_CHECKING:
    from codelab_local.testing import LocalCloud

__all__ = ["LocalCloud"]


def __getattr__(name: str) -> object:
    if name == "LocalCloud":
        from codelab_local.testing import LocalCloud

        return LocalCloud
    raise AttributeError(name)
