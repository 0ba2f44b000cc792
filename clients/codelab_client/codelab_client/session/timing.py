"""How long a session waits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long a session waits, in seconds."""

    open_s: float = 20.0  # for a connection, and again until it has replayed everything
    repeat_s: float = 15.0  # until a frame without a reply is sent again
    ping_s: float = 300.0  # of silence until a ping, while something goes on
    # The same while nothing does, less up to a tenth, so that many clients do not ping at once. A ping is most of what
    # an idle connection costs; API Gateway closes a silent one after ten minutes.
    idle_ping_s: float = 540.0
    lifetime_s: float = 6_600.0  # until an idle connection is replaced; API Gateway closes each after two hours
    pause_s: float = 0.5  # at least, after a failure; see `BackOff`
    longest_pause_s: float = 60.0
    tick_s: float = 0.25  # between two looks at the clock
