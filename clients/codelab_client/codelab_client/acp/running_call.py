"""Which call the current task executes: the workspace and the terminals tell the editor what each call does."""

from contextvars import ContextVar

#: The `call_id`; empty outside of a call. Tasks that a call starts inherit it.
running_call: ContextVar[str] = ContextVar("running_call", default="")
