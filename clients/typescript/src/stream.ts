import { SessionError } from "./errors.ts";

/** Events that wait for a reader that has not begun; the oldest are forgotten. */
const MOST_UNREAD = 2_000;
/** Events that wait for a reader that has begun. */
const MOST_EVENTS = 100_000;

/** A queue with one reader. It ends when the session ends: with an error, unless that was on purpose. */
export class EventStream<Item> implements AsyncIterableIterator<Item> {
  /** The newest items, and those before them, the oldest last. */
  #newest: Item[] = [];
  #oldest: Item[] = [];
  #reading = false;
  #ended = false;
  #error: unknown;
  #waiting: (() => void)[] = [];
  readonly #onReturn: (stream: EventStream<Item>) => void;

  constructor(onReturn: (stream: EventStream<Item>) => void = () => {}) {
    this.#onReturn = onReturn;
  }

  put(item: Item): void {
    if (this.#ended) return;
    this.#newest.push(item);
    if (this.#newest.length + this.#oldest.length > (this.#reading ? MOST_EVENTS : MOST_UNREAD)) {
      this.#take();
      if (this.#reading) this.end(new SessionError("closed", "The server sends faster than its frames are read"));
    }
    this.#wake();
  }

  /** No event follows. */
  end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  async next(): Promise<IteratorResult<Item, undefined>> {
    this.#reading = true;
    for (;;) {
      const value = this.#take();
      if (value !== undefined) return { value, done: false };
      if (this.#ended) {
        const error = this.#error;
        this.#error = undefined;
        if (error !== undefined) throw error;
        return { value: undefined, done: true };
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.end();
    this.#newest = [];
    this.#oldest = [];
    this.#onReturn(this);
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** The oldest item. */
  #take(): Item | undefined {
    if (!this.#oldest.length) {
      this.#oldest = this.#newest.reverse();
      this.#newest = [];
    }
    return this.#oldest.pop();
  }
}
