"""Cards of finished calls, printed in the order in which an agent made the calls, whichever ends first."""

from collections.abc import Callable

from rich.console import RenderableType


class CallOrder:
    """The calls of a turn. Those of a subagent do not wait for those of others. show: prints a card."""

    def __init__(self, show: Callable[[RenderableType], None]) -> None:
        self._show = show
        self._cards: dict[str, tuple[RenderableType, str] | None] = {}  # None: the call has not ended
        self._makers: dict[str, str] = {}

    def begin(self, call_id: str, maker: str = "") -> None:
        """The agent, or the subagent `maker`, has made a call."""
        self._cards.setdefault(call_id, None)
        self._makers[call_id] = maker

    def end(self, call_id: str, card: RenderableType, summary: str) -> None:
        """A call has ended. Its card is printed when those before it have ended; until then, `held` has its summary."""
        self._cards[call_id] = (card, summary)
        self._print()

    def settle(self, call_id: str) -> None:
        """A call needs no card any more: it was rejected, or has expired."""
        if call_id in self._cards and self._cards[call_id] is None:
            del self._cards[call_id]
        self._print()

    def close(self, maker: str | None = None) -> None:
        """No call of the turn, or of the subagent `maker`, is open any more: print what waits."""
        for call_id in [call_id for call_id, card in self._cards.items() if card is None]:
            if maker in (None, self._makers.get(call_id)):
                del self._cards[call_id]
        self._print()

    @property
    def held(self) -> list[str]:
        """The summaries of calls that have ended before an earlier one."""
        return [card[1] for card in self._cards.values() if card is not None]

    def _print(self) -> None:
        blocked_makers = set()
        for call_id, card in list(self._cards.items()):
            maker = self._makers.get(call_id, "")
            if card is None:
                blocked_makers.add(maker)
            elif maker not in blocked_makers:
                del self._cards[call_id]
                self._show(card[0])
        self._makers = {call_id: self._makers.get(call_id, "") for call_id in self._cards}
