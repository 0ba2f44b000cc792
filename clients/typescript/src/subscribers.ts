import type { SessionEvent, SessionEventOf } from "./events.ts";
import { Listeners } from "./listeners.ts";
import { EventStream } from "./stream.ts";

/** Those who want to know what happens in a session. */
export class Subscribers {
  readonly #listeners = new Map<string, Listeners<any>>();
  /** Everything so far, for the first reader. */
  #unread: EventStream<SessionEvent> | undefined = new EventStream();
  readonly #streams = new Set<EventStream<SessionEvent>>().add(this.#unread!);
  #end: { error: Error | undefined } | undefined;

  on<Type extends SessionEvent["type"]>(type: Type | "*", listener: (event: SessionEventOf<Type>) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Listeners();
    this.#listeners.set(type, listeners);
    return listeners.on(listener);
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
    for (const type of [event.type, "*"]) this.#listeners.get(type)?.tell(event);
  }

  /** No event follows. */
  end(error: Error | undefined): void {
    this.#end = { error };
    for (const stream of this.#streams) stream.end(error);
  }
}
