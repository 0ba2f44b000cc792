"""Cards of finished calls, printed in the order in which the agent made the calls, whichever ends first."""

from collections.abc import Callable

from rich.console import RenderableType


class CallOrder:
    """The calls of a turn. show: prints a card."""

    def __init__(self, show: Callable[[RenderableType], None]) -> None:
        self._show = show
        self._cards: dict[str, tuple[RenderableType, str] | None] = {}  # None: the call has not ended

    def begin(self, call_id: str) -> None:
        """The agent has made a call."""
        self._cards.setdefault(call_id, None)

    def end(self, call_id: str, card: RenderableType, summary: str) -> None:
        """A call has ended. Its card is printed when those before it have ended; until then, `held` has its summary."""
        self._cards[call_id] = (card, summary)
        self._print()

    def settle(self, call_id: str) -> None:
        """A call needs no card any more: it was rejected, or has expired."""
        if call_id in self._cards and self._cards[call_id] is None:
            del self._cards[call_id]
        self._print()

    def close(self) -> None:
        """No call of the turn is open any more: print what waits."""
        for call_id in [call_id for call_id, card in self._cards.items() if card is None]:
            del self._cards[call_id]
        self._print()

    @property
    def held(self) -> list[str]:
        """The summaries of calls that have ended before an earlier one."""
        return [card[1] for card in self._cards.values() if card is not None]

    def _print(self) -> None:
        while self._cards and (card := next(iter(self._cards.values()))) is not None:
            del self._cards[next(iter(self._cards))]
            self._show(card[0])
