"""Runs compaction: reads a part of the history, asks the model for a summary, commits it."""

import time
from collections.abc import Callable

from codelab.engine.engine import Engine
from codelab.engine.meter import Meter
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import ModelError, RequestError
from codelab.observability import logger
from codelab.protocol.errors import ProtocolError
from codelab.sessions.register import Register
from codelab.turns import compaction
from codelab.turns.usage import counted

#: In ms: the least time left to begin a summary, the most time it may take, and the time it must leave.
_LEAST_MS, _MOST_MS, _MARGIN_MS = 20_000, 60_000, 5_000


class Compactor:
    """One per process. A summary that was not finished is tried again after the next step."""

    def __init__(self, engine: Engine, transport: Transport, unsupported: UnsupportedFeatures) -> None:
        self._engine = engine
        self._transport = transport
        self._settings = engine.settings
        self._unsupported = unsupported

    def compact(self, register: Register, config: RequestConfig, meter: Meter, remaining_ms: Callable[[], int]) -> None:
        """Summarise a piece of the history if that is due. A failure of the model is logged and changes nothing."""
        if not compaction.is_due(register, self._settings) or remaining_ms() < _LEAST_MS:
            return
        extent, most = compaction.extent(register)
        read = self._engine.store.conversation(register.pk, extent, most)
        piece = compaction.piece(register, read.history, self._settings)
        if piece is None:
            return
        deadline = time.monotonic() + min(_MOST_MS, remaining_ms() - _MARGIN_MS) / 1000
        try:
            asked = compaction.messages(piece, read.summary)
            config, retry = config.changed(max_repairs=1), RetryPolicy(attempts=2)
            request = Request(config, compaction.SCHEMA, asked, unsupported=self._unsupported, retry=retry)
            result = request.run(self._transport, deadline=deadline)
            meter.add(counted(result.usage, None))
            content = compaction.text_of(result.solution, self._settings)
            self._engine.decide(
                register.user, register.session_id, lambda draft: compaction.commit(draft, piece, content)
            )
        except (RequestError, ProtocolError) as error:
            if isinstance(error, ModelError):
                meter.add(counted(error.usage, None))
            logger().warning("compaction failed", extra={"session": register.pk, "error": str(error)})
