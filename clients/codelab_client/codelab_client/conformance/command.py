"""`codelab conformance`: plays all dialogues to a server, and prints the report."""

import sys
from collections.abc import Callable, Iterable

from websockets.exceptions import WebSocketException

from codelab_client.conformance.dialogues import DIALOGUES, Dialogue, Subject
from codelab_client.judge.rules import Report
from codelab_client.judge.server import NotPlayed


async def judge(
    subject: Subject, dialogues: Iterable[Dialogue] = DIALOGUES, on_dialogue: Callable[[str], object] = lambda _: None
) -> Report:
    """Play dialogues to a server. Raises OSError or WebSocketException if the first cannot connect."""
    is_first = True
    for dialogue in dialogues:
        title = str(dialogue.__doc__)
        on_dialogue(title)
        try:
            await dialogue(subject)
        except NotPlayed as reason:
            subject.report.gaps.append(f"{title}: {reason}")
        except (OSError, WebSocketException) as error:
            if is_first:
                raise
            subject.report.gaps.append(f"{title}: {error}")
        is_first = False
    return subject.report


async def run(subject: Subject) -> int:
    """Judge a server and print the report. Returns 1 if it breaks a rule, 3 if it cannot be reached."""
    try:
        report = await judge(subject, on_dialogue=lambda title: sys.stderr.write(f"playing   {title}\n"))
    except (OSError, WebSocketException) as error:
        sys.stderr.write(f"codelab: {subject.address.shown} cannot be reached: {error}\n")
        return 3
    sys.stdout.write(f"{report.text()}\n")
    return 1 if report.complaints else 0
