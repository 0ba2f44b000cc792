/** How long a gap may last before the missing frames are asked for (docs/protocol.md, "Delivery"). */
const GAP_MS = 2_000;
/** Frames that are kept while earlier ones are missing; more are dropped, because a replay brings them again. */
const MOST_AHEAD = 2_000;

/** Puts frames in order and drops repeats. No I/O: time is a parameter (milliseconds). */
export class Sequence<Frame extends { seq?: number; execute?: boolean }> {
  /** The `seq` of the last frame that was given out. */
  lastSeq: number;
  readonly #ahead = new Map<number, Frame>();
  #moved = 0;

  constructor(lastSeq: number) {
    this.lastSeq = lastSeq;
  }

  /** The frames that are next in order, which may be none. Undefined: the frame repeats one that was given out. */
  take(frame: Frame, seq: number, now: number): Frame[] | undefined {
    if (seq <= this.lastSeq) return undefined;
    if (!this.#ahead.size) this.#moved = now;
    const waits = this.#ahead.has(seq);
    if (waits || seq === this.lastSeq + 1 || this.#ahead.size < MOST_AHEAD) {
      // A call may come again behind a gap, to execute it now. Another copy, only to show it, may come after that.
      if (!waits || frame.execute !== false) this.#ahead.set(seq, frame);
    }
    const ready: Frame[] = [];
    for (let next; (next = this.#ahead.get(this.lastSeq + 1)) !== undefined; ) {
      this.#ahead.delete(++this.lastSeq);
      this.#moved = now;
      ready.push(next);
    }
    return ready;
  }

  /** Whether frames have been missing for so long that they must be asked for. */
  hasGap(now: number): boolean {
    return this.#ahead.size > 0 && now - this.#moved > GAP_MS;
  }

  /** The missing frames have been asked for. */
  asked(now: number): void {
    this.#moved = now;
  }

  /** There is a new connection: it replays what waits, and says anew who executes which call. */
  connected(): void {
    this.#ahead.clear();
  }

  /** Go on after another position. */
  restart(lastSeq: number): void {
    this.lastSeq = lastSeq;
    for (const seq of this.#ahead.keys()) if (seq <= lastSeq) this.#ahead.delete(seq);
  }
}
