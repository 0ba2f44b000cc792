"""`/rewind` in an editor: first what would happen, then, with the code that names it, what was chosen."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

from codelab_client import last_sessions, rewind_report
from codelab_client.checkpoints import Extent, Report
from codelab_client.local_executor import LocalExecutor
from codelab_client.rewind import Point, Preview, Restore, Rewind, RewindError
from codelab_client.safe_text import safe_line
from codelab_client.session import Session
from codelab_client.session.rest import Rest

#: Messages that are listed.
_LISTED = 20
_CODE_CHARS = 8
_USAGE = "`/rewind`, `/rewind NUMBER`, `/rewind NUMBER both|conversation|files CODE`, behind it `edits` or `all`"
_EXTENTS: dict[str, Extent] = {"": "commands", "edits": "edits", "all": "everything"}


class GoingBack:
    """One session's way back. formatted: a report as the editor shows it."""

    def __init__(
        self,
        session: Session,
        rest_api: Rest,
        executor: LocalExecutor,
        root: Path,
        formatted: Callable[[Report], str],
    ) -> None:
        self._session, self._executor, self._root, self._formatted = session, executor, root, formatted
        self._rewind = Rewind(session, rest_api, executor)

    async def run(self, argument: str) -> str:
        """Run the command. Returns what the user reads. Raises RestError, SessionError."""
        number, restore, code, extent = (*argument.split(), "", "", "", "")[:4]
        try:
            points = await self._rewind.points()
            if not number:
                return _listed(points)
            if not number.isdecimal() or not 1 <= int(number) <= len(points) or extent not in _EXTENTS:
                return _USAGE
            await self._executor.end_turn()
            preview = await self._rewind.preview(points[int(number) - 1].message_id)
            if restore in get_args(Restore) and code and code == _code(preview):
                return await self._go_back(preview, cast(Restore, restore), _EXTENTS[extent])
            changed = "That is not what it would do now, so nothing has changed.\n\n" if code else ""
            return f"{changed}{self._formatted(rewind_report.previewed(preview))}\n\n{_offers(number, preview)}"
        except RewindError as error:
            return safe_line(error, 1_000)

    async def _go_back(self, preview: Preview, restore: Restore, extent: Extent) -> str:
        rewound = await self._rewind.go_back(preview, restore, extent)
        told = self._formatted(rewind_report.done(preview, rewound, restore, "this session"))
        if rewound.session_id is None:
            return told
        address = self._session.address
        await asyncio.to_thread(last_sessions.remember, address, self._root, rewound.session_id)
        return f"{told}\n\nOpen the copy from your editor's list of sessions: `{rewound.session_id}`. This one stays."


def _listed(points: list[Point]) -> str:
    if not points:
        return "There is no message of yours to go back to."
    lines = [f"{number}. {safe_line(point.text, 100)}" for number, point in enumerate(points[:_LISTED], 1)]
    return "\n".join([*lines, "", "`/rewind NUMBER` shows what going back to before a message would do."])


def _offers(number: str, preview: Preview) -> str:
    code, files = _code(preview), preview.files
    lines = [f"- `/rewind {number} conversation {code}`: only the conversation, in a copy of this session"]
    if files is not None and files.states:
        lines += [
            f"- `/rewind {number} both {code}`: the conversation and the files",
            f"- `/rewind {number} files {code}`: only the files",
        ]
        if files.command_paths:
            lines.append("- behind one of these, `edits`: without the files that commands changed")
        if files.changed_since:
            lines.append("- behind one of these, `all`: also the files that were changed since")
    return "\n".join(lines)


def _code(preview: Preview) -> str:
    """Names what was shown: the message, and the files as they were then."""
    states = sorted(preview.files.states.items()) if preview.files is not None else []
    text = repr((preview.point.message_id, preview.message_count, states))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_CODE_CHARS]
