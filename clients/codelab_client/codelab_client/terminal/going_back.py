"""Going back to an earlier message, in the terminal: choose it, see what would happen, choose what goes back."""

from collections.abc import Sequence
from typing import cast

from codelab_client.local_executor import LocalExecutor
from codelab_client.rewind import Point, Preview, Restore, Rewind, RewindError, Rewound
from codelab_client.safe_text import exact_line, safe_line
from codelab_client.session.rest import Rest, RestError
from codelab_client.terminal import cards
from codelab_client.terminal.conversation import TerminalConversation
from codelab_client.terminal.counts import counted
from codelab_client.terminal.picker import Choice

_RESTORE: dict[Restore, tuple[str, str]] = {
    "both": ("Conversation and files", ""),
    "conversation": ("Only the conversation", "files stay as they are"),
    "files": ("Only the files", "the conversation stays as it is"),
}


class GoingBack:
    """One conversation's way back."""

    def __init__(self, conversation: TerminalConversation, rest_api: Rest, executor: LocalExecutor) -> None:
        self._conversation, self._executor = conversation, executor
        self._rewind = Rewind(conversation.session, rest_api, executor)

    async def run(self) -> Rewound | None:
        """Let the user choose, and go back. Returns what was done; None: nothing. Raises RestError, SessionError."""
        try:
            return await self._run()
        except RewindError as error:
            self._say(str(error), "error")
            return None

    async def _run(self) -> Rewound | None:
        points = await self._rewind.points()
        if not points:
            self._say("There is no message of yours to go back to", "warning")
            return None
        stops = ", which stops what runs" if self._conversation.is_working else ""
        title = f"Go back to before which message{stops}?"
        message_id = await self._conversation.screen.pick(title, [_choice(point) for point in points], self._gist)
        if message_id is None:
            return None
        if not self._conversation.session.is_settled:
            self._say("Stopping what runs …")
            await self._conversation.session.settle()
        await self._executor.end_turn()
        preview = await self._rewind.preview(message_id)
        self._show(preview)
        restore = await self._restore(preview)
        extent = await self._extent(preview) if restore in ("both", "files") else "commands"
        if restore is None or extent is None:
            self._say("Nothing has changed")
            return None
        return await self._go_back(preview, restore, extent)

    async def _go_back(self, preview: Preview, restore: Restore, extent: str) -> Rewound:
        from codelab_client import rewind_report
        from codelab_client.checkpoints import Extent

        rewound = await self._rewind.go_back(preview, restore, cast(Extent, extent))
        summary = rewind_report.done(preview, rewound, restore, self._conversation.session.session_id)
        self._conversation.show_report(summary)
        if rewound.session_id is None and rewound.files is not None:
            self._conversation.local_commands.note(rewind_report.told_to_agent(preview, rewound.files))
        return rewound

    async def _gist(self, message_id: str) -> Sequence[str]:
        """What would happen, in the few lines below the list."""
        from codelab_client.rewind_report import previewed

        try:
            summary = previewed(await self._rewind.preview(message_id))
        except (RewindError, RestError) as error:
            return [str(error)]
        titles = [f"{paths.title}: {', '.join(map(exact_line, paths.paths))}" for paths in summary.lists]
        return [summary.gist, *titles, *filter(None, [summary.hint])]

    def _show(self, preview: Preview) -> None:
        from codelab_client.rewind_report import previewed

        self._conversation.show_report(previewed(preview))

    async def _restore(self, preview: Preview) -> Restore | None:
        can_restore = preview.files is not None and bool(preview.files.states)
        names: list[Restore] = list(_RESTORE) if can_restore else ["conversation"]
        choices = [Choice(name, *_RESTORE[name]) for name in names]
        return cast("Restore | None", await self._conversation.screen.pick("What goes back?", choices))

    async def _extent(self, preview: Preview) -> str | None:
        """Which files: asked only if some of them may be the user's own work."""
        files = preview.files
        assert files is not None
        count, changed_count = len(files.restored_paths), len(files.changed_since)
        detail = "all that was not changed since" if count else "all were changed since"
        choices = [Choice("commands", counted(count, "file"), detail)]
        if files.command_paths:
            without = counted(len(files.edited_paths), "file")
            choices.append(Choice("edits", without, "without those that commands changed"))
        if changed_count:
            detail = f"also {counted(changed_count, 'file')} changed since, whose present content goes"
            choices.append(Choice("everything", f"All {count + changed_count}", detail))
        if len(choices) == 1:
            return choices[0].value
        return await self._conversation.screen.pick("Which files?", choices)

    def _say(self, text: str, style: str = "quiet") -> None:
        self._conversation.screen.show(cards.notice(text, style))


def _choice(point: Point) -> Choice:
    return Choice(point.message_id, safe_line(point.text, 120), point.sent_at[:16].replace("T", " "))
