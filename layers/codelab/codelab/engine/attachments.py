"""Reads the large attachments that a step shows to the model."""

import json
from collections import OrderedDict
from concurrent.futures import Executor
from dataclasses import replace
from operator import attrgetter
from typing import Any

from codelab.delivery.payloads import Payloads
from codelab.sessions.items import Reference
from codelab.sessions.register import Register
from codelab.sessions.store import Conversation

#: Messages whose attachments the model sees, the newest ones; and how many contents a process keeps, because a turn's
#: steps read the same ones.
_MAX_MESSAGES, _MAX_CONTENTS = 10, 4
_ATTACHED = attrgetter("attachments")


class Attachments:
    """One per process."""

    def __init__(self, payloads: Payloads, pool: Executor) -> None:
        self._payloads = payloads
        self._pool = pool
        self._contents: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def added_to(self, conversation: Conversation, register: Register) -> Conversation:
        """The conversation with its large attachments. Reads nothing if there are none, as in most conversations."""
        digests = [
            message.attachments.content.digest
            for message in filter(_ATTACHED, conversation.history)
            if message.attachments and message.n > register.cut_n and isinstance(message.attachments.content, Reference)
        ][-_MAX_MESSAGES:]
        if not digests:
            return conversation
        contents = self._pool.map(lambda digest: self._read(register, digest), digests)
        return replace(conversation, attachments=dict(zip(digests, contents, strict=True)))

    def _read(self, register: Register, digest: str) -> Any:
        key = (register.pk, digest)
        content = self._contents.get(key)
        if content is None:
            content = json.loads(self._payloads.read(register.user, register.session_id, digest))
            self._contents[key] = content
            while len(self._contents) > _MAX_CONTENTS:
                self._contents.popitem(last=False)
        return content
