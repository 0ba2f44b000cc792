"""docs/errors.md: every error code."""

from codelab.protocol.errors import ALIASES, FACTS, CodeFacts, ErrorCode, Where
from codelab.rest.error_responses import name_of, status_of

from infra.docs.markdown import note, page_heading, table

_ABOUT = """\
The same codes are used on the WebSocket, in results of calls and over REST. An `error` frame without `seq` rejects one
of your frames, which changed nothing; with `seq`, it ends a turn. Its `retryable` says whether the same frame may
succeed later; the column here is the default.
"""


def page() -> str:
    """The page."""
    parts = [note("layers/codelab/codelab/protocol/errors.py"), page_heading("Error codes"), _ABOUT]
    rows = [
        (
            f"`{code.value}`",
            f"{facts.meaning}. {facts.occasion}",
            _where(code, facts),
            "yes" if facts.retryable else "no",
        )
        for code, facts in FACTS.items()
    ]
    parts += table(("code", "meaning", "where", "retry"), rows)
    names = ", ".join(f"`{alias}` for `{code.value}`" for alias, code in ALIASES.items())
    parts += ["", "Where:", "", *(f"- *{_SHORT[where]}*: {where.value}" for where in Where)]
    parts += ["", f"Aliases: {names}. An unlisted code counts as `EXECUTION_FAILED`.", ""]
    return "\n".join(parts)


_SHORT = {Where.REPLY: "reply", Where.TURN: "turn", Where.CALL: "call", Where.REST: "REST"}


def _where(code: ErrorCode, facts: CodeFacts) -> str:
    words = [_SHORT[where] for where in facts.places if where is not Where.REST]
    if Where.REST in facts.places:
        named = "" if name_of(code) == code.value else f" as `{name_of(code)}`"
        words.append(f"REST {status_of(code)}{named}")
    return ", ".join(words)
