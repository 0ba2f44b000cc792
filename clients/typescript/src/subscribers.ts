import type { SessionEvent, SessionEventOf } from "./events.ts";
import { EventStream } from "./stream.ts";

/** Those who want to know what happens in a session. */
export class Subscribers {
  readonly #listeners = new Map<string, Set<(event: any) => void>>();
  readonly #streams = new Set<EventStream<SessionEvent>>();
  /** Everything so far, for the first reader. */
  #unread: EventStream<SessionEvent> | undefined = new EventStream();
  #end: { error: Error | undefined } | undefined;

  on<Type extends SessionEvent["type"]>(type: Type | "*", listener: (event: SessionEventOf<Type>) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  events(): AsyncIterableIterator<SessionEvent> {
    const stream = this.#unread ?? new EventStream((ended) => this.#streams.delete(ended));
    this.#unread = undefined;
    this.#streams.add(stream);
    if (this.#end) stream.end(this.#end.error);
    return stream;
  }

  show(event: SessionEvent): void {
    if (this.#end) return;
    for (const stream of this.#streams) stream.put(event);
    this.#unread?.put(event);
    for (const type of [event.type, "*"]) {
      for (const listener of this.#listeners.get(type) ?? []) {
        try {
          listener(event);
        } catch (error) {
          console.error("codelab: a listener failed:", error);
        }
      }
    }
  }

  /** No event follows. */
  end(error: Error | undefined): void {
    this.#end = { error };
    for (const stream of this.#streams) stream.end(error);
    this.#unread?.end(error);
  }
}
