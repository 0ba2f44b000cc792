"""Going back to an earlier message of the user: the conversation, the files, or both. It is shown before it is done.

The conversation goes on in a fork that ends before the message; the session itself stays as it is. Nothing has to be
remembered between the steps: whoever dies between two of them does it again, and gets the same fork.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from codelab_client.local_executor import LocalExecutor
from codelab_client.safe_text import safe_line
from codelab_client.session import Session
from codelab_client.session.address import checked_session_id
from codelab_client.session.rest import Rest, RestError, of_session
from codelab_client.tools.arguments import ARGUMENTS
from codelab_client.tools.risks import canonical, risk_of

if TYPE_CHECKING:
    from codelab_client.checkpoints import Checkpoints, Extent, FilesBack

Restore = Literal["conversation", "files", "both"]

#: Characters of a title that the server takes, and of the message in it.
_TITLE_CHARS, _MESSAGE_CHARS = 200, 60
#: Characters of the message in the name of what `/redo` brings back.
_LABEL_CHARS = 100
_BACK_TO = " (back to: "
#: A fork is asked for again after these pauses (seconds): it did not answer, or another window makes the same.
_PAUSES_S = (0.5, 2.0, 5.0)
_REPEATED = (0, HTTPStatus.CONFLICT, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)
#: Forks of the same message that were used since.
_MOST_FORKS = 50
#: Calls that run a program.
_COMMANDS = ("run_command", "run_persistent")
#: What names a call best.
_SUBJECTS = ("command", "path", "from", "message", "name", "task", "url")


class RewindError(Exception):
    """It was not possible to go back; nothing has changed. The text says why."""


@dataclass(frozen=True)
class Point:
    """A message of the user. place: in the history, from 1. sent_at: as the server tells it."""

    message_id: str
    place: int
    text: str
    sent_at: str


@dataclass(frozen=True)
class Preview:
    """What going back would do.

    message_count: how many of the user's messages go, this one included. files: None if there are no checkpoints, for
    the reason `problem`.
    commands: the programs that ran since: what they did outside of the workspace is not undone. unrecorded_calls: those
    that may have changed something and have no checkpoint here.
    """

    point: Point
    message_count: int
    call_ids: frozenset[str]
    files: "FilesBack | None"
    problem: str = ""
    commands: tuple[str, ...] = ()
    unrecorded_calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rewound:
    """What was done. session_id: where the conversation goes on; None: where it was. problem: why files are as before.

    draft: the text of the message, to be changed and sent anew. files: what has become of them; None: nothing was to.
    """

    session_id: str | None
    draft: str
    files: "FilesBack | None" = None
    problem: str = ""


class Rewind:
    """Going back in one session. Methods raise RewindError, RestError and SessionError."""

    def __init__(self, session: Session, rest_api: Rest, executor: LocalExecutor) -> None:
        self._session, self._rest_api, self._executor = session, rest_api, executor

    async def points(self) -> list[Point]:
        """The user's messages among the newest 1,000 of the history, the newest first."""
        messages, _ = await self._rest_api.messages(self._session.session_id)
        return [point for message in reversed(messages) if (point := _point(message)) is not None]

    async def preview(self, message_id: str) -> Preview:
        """What going back to just before a message would do. Changes nothing."""
        messages, _ = await self._rest_api.messages(self._session.session_id)
        points = [point for message in messages if (point := _point(message)) is not None]
        point = next((point for point in points if point.message_id == message_id), None)
        if point is None:
            raise RewindError("There is no such message of yours among the newest of this conversation")
        since = [message for message in messages if _place(message) >= point.place]
        calls = [call for message in since for call in _calls(message)]
        call_ids = frozenset(str(call["call_id"]) for call in calls)
        files: FilesBack | None = None
        problem = ""
        try:
            files = await self._files_back(call_ids)
        except RewindError as error:
            problem = str(error)
        failed_ids = {str(message.get("call_id")) for message in since if _has_failed(message)}
        recorded_ids = files.recorded_calls if files is not None else frozenset[str]()
        changing = [call for call in calls if _changes(call) and call["call_id"] not in failed_ids]
        return Preview(
            point,
            sum(1 for later_point in points if later_point.place >= point.place),
            call_ids,
            files,
            problem,
            tuple(_told(call) for call in calls if _is_command(call) and call["call_id"] in recorded_ids),
            tuple(_told(call) for call in changing if call["call_id"] not in recorded_ids),
        )

    async def go_back(self, preview: Preview, restore: Restore, extent: "Extent" = "commands") -> Rewound:
        """Stop what runs, and go back as it was shown. It may be repeated whatever has failed or died in between.

        extent: of the files, see `checkpoints.Extent`. What is another file than it was shown stays as it is.
        """
        await self._session.settle()
        await self._executor.end_turn()
        fork_id = None if restore == "files" else await self._fork(preview.point)
        if restore == "conversation":
            return Rewound(fork_id, preview.point.text)
        try:
            files = await self._restore(preview, extent)
        except RewindError as error:
            if fork_id is None:
                raise
            return Rewound(fork_id, preview.point.text, problem=str(error))
        return Rewound(fork_id, preview.point.text, files)

    async def _files_back(self, call_ids: frozenset[str]) -> "FilesBack":
        with _told_failures():
            return await (await self._checkpoints()).files_back(call_ids)

    async def _restore(self, preview: Preview, extent: "Extent") -> "FilesBack":
        if preview.files is None:
            raise RewindError(preview.problem)
        label = f"going back to: {safe_line(preview.point.text, _LABEL_CHARS)}"
        with _told_failures():
            return await (await self._checkpoints()).rewind(preview.call_ids, label, extent, preview.files)

    async def _checkpoints(self) -> "Checkpoints":
        checkpoints = await self._executor.checkpoints()
        if checkpoints is None:
            raise RewindError("there are no checkpoints, because the folder of the client's state is in the workspace")
        return checkpoints

    async def _fork(self, point: Point) -> str:
        """A copy of the conversation before a message, in which nobody has said anything yet. Returns its id."""
        state = await self._rest_api.get(f"/sessions/{of_session(self._session.session_id)}")
        state = state if isinstance(state, dict) else {}
        rules = await self._session.rules()
        # The same message under the same settings and rules is the same copy, until somebody goes on in it.
        content = [point.message_id, point.place, state.get("settings"), state.get("agent"), rules]
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
        body = {"up_to": point.place - 1, "title": _title(str(state.get("title") or ""), point.text)}
        for number in range(1, _MOST_FORKS + 1):
            copy = await self._copied(body, f"rewind-{key}-{number}")
            if await self._is_unused(copy, point.place - 1):
                return copy
        raise RewindError(f"There are {_MOST_FORKS} copies of the conversation before this message: delete some")

    async def _copied(self, body: Mapping[str, Any], key: str) -> str:
        path = f"/sessions/{of_session(self._session.session_id)}/fork"
        for pause in (*_PAUSES_S, None):
            try:
                copy = await self._rest_api.post(path, body, key)
                return checked_session_id(str(copy.get("session_id") if isinstance(copy, dict) else ""))
            except RestError as error:
                if pause is None or error.status not in _REPEATED:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last pause is None")

    async def _is_unused(self, session_id: str, message_count: int) -> bool:
        try:
            state = await self._rest_api.get(f"/sessions/{of_session(session_id)}")
        except RestError as error:
            if error.status == HTTPStatus.NOT_FOUND:  # it was deleted
                return False
            raise
        return isinstance(state, dict) and (state.get("messages"), state.get("turn_id")) == (message_count, None)


@contextmanager
def _told_failures() -> Iterator[None]:
    """Turn what keeps checkpoints from being used into a RewindError."""
    from codelab_client.checkpoints import CheckpointFailed

    try:
        yield
    except CheckpointFailed as failure:
        raise RewindError(str(failure)) from None


def _point(message: Mapping[str, Any]) -> Point | None:
    text, message_id = message.get("content"), message.get("message_id")
    if message.get("role") != "user" or not isinstance(text, str) or not isinstance(message_id, str):
        return None
    return Point(message_id, _place(message), text, str(message.get("created_at") or ""))


def _place(message: Mapping[str, Any]) -> int:
    place = message.get("n")
    return place if isinstance(place, int) and place > 0 else 0


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("calls")
    items = calls if isinstance(calls, list) else []
    return [call for call in items if isinstance(call, dict) and isinstance(call.get("call_id"), str)]


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, dict) else {}


def _changes(call: Mapping[str, Any]) -> bool:
    """Whether a call is one of the catalogue that may change something."""
    tool = str(call.get("tool_name", ""))
    return canonical(tool) in ARGUMENTS and risk_of(tool, _arguments(call)) != "read"


def _is_command(call: Mapping[str, Any]) -> bool:
    """Whether a call ran a program, or a tool that is not ours."""
    name = canonical(str(call.get("tool_name", "")))
    return name in _COMMANDS or name not in ARGUMENTS


def _has_failed(message: Mapping[str, Any]) -> bool:
    """Whether a call's result, as the model saw it, says that it was not executed or has failed."""
    if message.get("role") != "tool":
        return False
    try:
        content = json.loads(str(message.get("content")))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and ("error" in content or content.get("status") in ("rejected", "expired"))


def _told(call: Mapping[str, Any]) -> str:
    arguments = _arguments(call)
    subject = next((arguments[name] for name in _SUBJECTS if isinstance(arguments.get(name), str)), "")
    return f"{call.get('tool_name')} {subject}".strip()


def _title(title: str, text: str) -> str:
    """The title of a copy: that of the conversation, and where it goes back to."""
    ending = f"{_BACK_TO}{safe_line(text, _MESSAGE_CHARS)})"
    return f"{title.partition(_BACK_TO)[0][: _TITLE_CHARS - len(ending)]}{ending}".strip()
