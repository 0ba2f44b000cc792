"""What runs without a question: the server's rules, and the permissions for calls that were decided elsewhere."""

from typing import Any

from codelab_client.safe_text import exact_line, safe_line
from codelab_client.session.session import Session

_USAGE = "/rules, /rules revoke ID, /rules allow elsewhere"


async def listed(session: Session) -> list[str]:
    """A line for each, which begins with its id and may be shown as it is. Raises SessionError."""
    permissions = [
        f"{permission.permission_id}  whatever {safe_line(permission.server)} says was approved elsewhere, in "
        f"{exact_line(permission.workspace)} (since {safe_line(permission.at)})"
        for permission in session.elsewhere.listed()
    ]
    return [*map(_rule, await session.rules()), *permissions]


async def change(session: Session, command: str) -> str:
    """`revoke ID` or `allow elsewhere`. Returns what became of it. Raises SessionError."""
    verb, _, name = command.partition(" ")
    name = name.strip()
    if (verb, name) == ("allow", "elsewhere"):
        session.elsewhere.allow()
        return f"From now on, calls run here that {session.address.shown} says were approved elsewhere."
    if verb != "revoke" or not name:
        return _USAGE
    if name.startswith("elsewhere-"):
        return "Revoked." if session.elsewhere.revoke(name) else f"There is no {name}; /rules lists them."
    await session.revoke(name)
    return "Revoked."


def _rule(rule: dict[str, Any]) -> str:
    agent = safe_line(rule.get("agent", "")) or "every agent"
    rule_id, decision, tool, covers, scope = (
        exact_line(rule.get(name, "")) for name in ("rule_id", "decision", "tool_name", "covers", "scope")
    )
    return f"{rule_id}  {decision} {tool} {covers}  ({scope}, {agent})"
