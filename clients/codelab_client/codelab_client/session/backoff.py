"""How long to wait after a failure. No I/O: time is a parameter (seconds, monotonic), and so is chance."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

#: Doublings after which a pause is the longest one anyway, so that the power stays small.
_MOST_DOUBLINGS = 20


@dataclass
class BackOff:
    """Exponential back-off with jitter, for one client whose server or gateway refuses what it sends.

    shortest_s, longest_s: bounds of a pause, in seconds. chance: a random number in [0, 1).

    Pause n is a random time between half of and all of `2 * shortest_s * 2**n`. Half of it is fixed, unlike in "full
    jitter" (AWS Architecture Blog, "Exponential Backoff And Jitter"), because that half bounds what one client can
    send: with 0.5 s, at most seven tries in the first 30 s. The random half spreads clients that were refused together.
    """

    shortest_s: float
    longest_s: float
    chance: Callable[[], float] = random.random
    _failures: int = 0
    _until: float = -math.inf  # the end of the last pause

    def pause(self, now: float) -> float:
        """The seconds to wait after a failure at `now`.

        Pauses grow until no failure has come for a sixth of `longest_s`. One success does not shorten them: a gateway
        may accept every `resume` and refuse every message after it.
        """
        if now - self._until > self.longest_s / 6:
            self._failures = 0
        ceiling = min(self.longest_s, 2 * self.shortest_s * 2.0 ** min(self._failures, _MOST_DOUBLINGS))
        pause = ceiling * (1 + self.chance()) / 2
        self._failures += 1
        self._until = now + pause
        return pause
