"""Says why a command failed where its own output would mislead the reader."""

import re

from codelab_client.tools.processes import Process

#: What Linux, macOS and Node call it that a file cannot be changed, in a line that names `.git`.
_REFUSED = r"(?:read-only file system|operation not permitted|EROFS)"
_GIT_REFUSED = re.compile(rf"\.git\b.*{_REFUSED}|{_REFUSED}.*\.git\b", re.IGNORECASE)
_GIT = (
    "`.git` is read-only in commands, because what is in it runs outside the sandbox when the user's git runs. Commit"
    " and change branches with the tools git.commit and git.branch, or ask the user to run this in a terminal."
)
_TERMINAL = (
    "{programs} waited for a terminal and was ended: commands have none, and nobody who could type. Use options or"
    " arguments in place of questions, and other tools to edit files."
)


def explanation(process: Process, *, protects_git: bool) -> dict[str, str]:
    """The field `note` of a command's result; empty if there is nothing to explain.

    protects_git: whether `.git` is read-only for the command.
    """
    notes = []
    if process.wanted_terminal:
        notes.append(_TERMINAL.format(programs=", ".join(process.wanted_terminal)))
    has_failed = process.has_ended and process.ended().exit_code != 0
    if protects_git and has_failed and _is_about_git(process):
        notes.append(_GIT)
    return {"note": " ".join(notes)} if notes else {}


def _is_about_git(process: Process) -> bool:
    return any(_GIT_REFUSED.search(output.text()) for output in (process.stderr, process.stdout))
