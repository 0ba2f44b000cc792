import type { SessionEvent } from "./events.ts";
import type { TurnEndFrame } from "./protocol.ts";
import { EventStream } from "./stream.ts";

/**
 * A message of the user, and the turn that answers it. Iterating gives the events until the turn has ended; the last
 * one is the `turn_end`. If another turn is running, the message waits, and the events are those of both turns.
 */
export class Turn implements AsyncIterable<SessionEvent> {
  /** The message's `client_msg_id`. */
  readonly id: string;
  /** Settles when the server has accepted the message; rejects if it is refused or the session ends. */
  readonly accepted: Promise<void>;
  /**
   * The end of the turn; undefined if the message was withdrawn, or if the server does not have the frame any more.
   * Rejects like `accepted`.
   */
  readonly ended: Promise<TurnEndFrame | undefined>;
  readonly #stream = new EventStream<SessionEvent>();
  readonly #messages = new Map<string, string>();
  #turnId: string | undefined;
  #settle!: (end: TurnEndFrame | undefined) => void;
  #reject!: (error: unknown) => void;
  #isQueued = false;
  #isAccepted = false;
  #lost = false;

  constructor(id: string, accepted: Promise<void>, forget: (turn: Turn) => void) {
    this.id = id;
    this.accepted = accepted;
    this.ended = new Promise((resolve, reject) => {
      this.#settle = resolve;
      this.#reject = reject;
    });
    void this.ended.catch(() => {}).then(() => forget(this));
    accepted.then(
      () => {
        this.#isAccepted = true;
      },
      (error: unknown) => this.fail(error),
    );
  }

  /** Whether the server has accepted the message. */
  get isAccepted(): boolean {
    return this.#isAccepted;
  }

  /** The `turn_id`, once the agent has got the message. */
  get turnId(): string | undefined {
    return this.#turnId;
  }

  /** The text of the turn's last message, once the turn has ended. */
  async text(): Promise<string> {
    await this.ended;
    return [...this.#messages.values()].at(-1) ?? "";
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<SessionEvent> {
    return this.#stream;
  }

  /** @internal Take an event of the session. */
  take(event: SessionEvent): void {
    this.#stream.put(event);
    switch (event.type) {
      case "queued":
        if (event.client_msg_id === this.id) this.#isQueued = true;
        break;
      case "user_message":
        if (event.client_msg_id === this.id) this.#turnId = event.turn_id;
        break;
      case "ack":
        if (event.outcome === "withdrawn" && event.client_msg_id === this.id) this.#end(undefined);
        break;
      case "withdrawn":
        if (event.client_msg_ids.includes(this.id)) this.#end(undefined);
        break;
      case "assistant_message":
        if (event.turn_id !== this.#turnId) break;
        if (event.aborted) this.#messages.delete(event.message_id);
        else this.#messages.set(event.message_id, (this.#messages.get(event.message_id) ?? "") + event.token);
        break;
      case "message_discarded":
        this.#messages.delete(event.message_id);
        break;
      case "turn_end":
        if (event.turn_id === this.#turnId) this.#end(event);
        break;
      case "resync_required":
        this.#lost = true;
        break;
      case "session_info":
        if (!this.#lost) break;
        this.#lost = false;
        // The lost frames may have said that the running turn answers the message.
        if (!this.#isQueued) this.#turnId ??= event.turn_id;
        if (event.status === "idle" || (this.#turnId && event.turn_id !== this.#turnId)) this.#end(undefined);
        break;
      default:
    }
  }

  /** @internal The session ended, or the message was refused. */
  fail(error: unknown): void {
    this.#stream.end(error);
    this.#reject(error);
  }

  #end(end: TurnEndFrame | undefined): void {
    this.#stream.end();
    this.#settle(end);
  }
}
