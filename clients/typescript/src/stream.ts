import { SessionError } from "./errors.ts";

/** Events that wait for a reader that has not begun; the oldest are forgotten. */
const MOST_UNREAD = 2_000;
/** Events that wait for a reader that has begun. */
const MOST_EVENTS = 100_000;

/** A queue with one reader. It ends when the session ends: with an error, unless that was on purpose. */
export class EventStream<Item> implements AsyncIterableIterator<Item> {
  #items: Item[] = [];
  #next = 0;
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
    this.#items.push(item);
    if (this.#items.length - this.#next > (this.#reading ? MOST_EVENTS : MOST_UNREAD)) {
      this.#next++;
      if (this.#reading) this.end(new SessionError("closed", "The server sends faster than its frames are read"));
    }
    this.#compact();
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
      if (this.#next < this.#items.length) {
        const value = this.#items[this.#next++] as Item;
        this.#compact();
        return { value, done: false };
      }
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
    this.#items = [];
    this.#next = 0;
    this.#onReturn(this);
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #compact(): void {
    if (this.#next > 1_000 && this.#next * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#next);
      this.#next = 0;
    }
  }
}
