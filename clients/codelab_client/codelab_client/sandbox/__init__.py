"""How commands run: in bubblewrap, Landlock or seatbelt, or without a sandbox (docs/client-sandbox.md)."""

from codelab_client.sandbox.access import Access, Guarantees, Launch, Sandbox, Unsandboxed, folders_above
from codelab_client.sandbox.choice import Choice, choose

__all__ = ["Access", "Choice", "Guarantees", "Launch", "Sandbox", "Unsandboxed", "choose", "folders_above"]
