/**
 * Exponential back-off with jitter, for one client whose server or gateway refuses what it sends. Gives a function that
 * says how long to wait after a failure at a time (milliseconds), and for what the server asks for, up to `longestMs`.
 *
 * Pause n (from 1) is a random time between half of and all of `shortestMs * 2 ** n`: the fixed half bounds what one client
 * can send, the random half spreads clients that were refused together. Pauses grow until no failure has come for
 * a sixth of `longestMs`. One success does not shorten them: a gateway may accept every `resume` and refuse every message
 * after it.
 */
export function backOff(shortestMs: number, longestMs: number, chance = Math.random): (now: number, leastMs?: number) => number {
  let failures = 0;
  let until = -Infinity;
  return (now, leastMs = 0) => {
    if (now - until > longestMs / 6) failures = 0;
    const random = Math.round((Math.min(longestMs, shortestMs * 2 ** ++failures) * (1 + chance())) / 2);
    const pause = random + Math.min(longestMs, leastMs);
    until = now + pause;
    return pause;
  };
}
