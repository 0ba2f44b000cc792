/** Doublings after which a pause is the longest one anyway. */
const MOST_DOUBLINGS = 20;

/**
 * Exponential back-off with jitter, for one client whose server or gateway refuses what it sends. Pause n is a random
 * time between half of and all of `2 * shortestMs * 2 ** n`: the fixed half bounds what one client can send, the random
 * half spreads clients that were refused together. No I/O: time is a parameter (milliseconds), and so is chance.
 */
export class BackOff {
  readonly #shortestMs: number;
  readonly #longestMs: number;
  readonly #chance: () => number;
  #failures = 0;
  #until = -Infinity;

  constructor(shortestMs: number, longestMs: number, chance: () => number = Math.random) {
    this.#shortestMs = shortestMs;
    this.#longestMs = longestMs;
    this.#chance = chance;
  }

  /**
   * The time to wait after a failure at `now`. Pauses grow until no failure has come for `longestMs`. One success does
   * not shorten them: a gateway may accept every `resume` and refuse every message after it.
   */
  pause(now: number): number {
    if (now - this.#until > this.#longestMs) this.#failures = 0;
    const ceiling = Math.min(this.#longestMs, 2 * this.#shortestMs * 2 ** Math.min(this.#failures, MOST_DOUBLINGS));
    const pause = (ceiling * (1 + this.#chance())) / 2;
    this.#failures++;
    this.#until = now + pause;
    return pause;
  }
}
