"""Sessions begin: over HTTP, where nobody joins."""

from typing import Any

from codelab.sessions.items import AboutItem
from codelab.sessions.register import Register
from codelab.sessions.transition import Transition
from codelab.turns.draft import Circumstances, Draft


def create(
    user: str, session_id: str, about: AboutItem, given: Circumstances, *, title: str = "", **settings: Any
) -> Transition:
    """A session without connections."""
    register = Register(
        user=user,
        session_id=session_id,
        created_at=given.now,
        last_activity=given.now,
        agent=given.settings.default_agent,
        title=title,
        settings=settings,
    )
    draft = Draft(before=None, register=register, given=given)
    draft.puts.append(about)
    return draft.finish()
