"""The keyring of the system, for secrets that are too long-lived for a file."""

from typing import Any


def system_keyring() -> Any:
    """The system's keyring; None if it has none that it recommends, such as one that encrypts nothing."""
    import keyring

    try:
        backend = keyring.get_keyring()
        return backend if backend.priority >= 1 else None
    except Exception:  # what a keyring raises depends on the system
        return None


def kept_in_keyring(service: str, name: str, secret: str) -> str:
    """Keep a secret in the keyring. Returns the keyring's name; an empty text if it cannot keep it."""
    backend = system_keyring()
    if backend is None:
        return ""
    try:
        backend.set_password(service, name, secret)
        # Some keyrings cut what is too long for them.
        return str(backend.name) if backend.get_password(service, name) == secret else ""
    except Exception:  # as above; the caller has a file, which always works
        return ""
