import { SessionError } from "./errors.ts";
import type { SessionEvent } from "./events.ts";
import type { ClientFrame, ErrorFrame } from "./protocol.ts";

/** So often is a frame sent that the server refuses for now, before it counts as refused. */
const TRIES = 5;

/** Whether an event is the reply to a frame. */
export type Accepts = (event: SessionEvent) => boolean;

interface Asked {
  frame: ClientFrame;
  accepts: Accepts;
  resolve(reply: SessionEvent): void;
  reject(error: unknown): void;
  sentAt: number;
  tries: number;
}

/**
 * Frames that wait for their replies, one after the other, and are sent again until the reply comes. One at a time,
 * because an `error` does not say which frame it refuses.
 */
export class Asking {
  readonly #repeatMs: number;
  readonly #send: (frame: ClientFrame) => void;
  #queue: Asked[] = [];

  constructor(repeatMs: number, send: (frame: ClientFrame) => void) {
    this.#repeatMs = repeatMs;
    this.#send = send;
  }

  /** The frame that waits for its reply. */
  get frame(): ClientFrame | undefined {
    return this.#queue[0]?.frame;
  }

  ask(frame: ClientFrame, accepts: Accepts): Promise<SessionEvent> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ frame, accepts, resolve, reject, sentAt: 0, tries: 0 });
    });
  }

  /** The session is online: send the first frame unless it was sent. */
  repeat(): void {
    const asked = this.#queue[0];
    if (asked && !asked.sentAt) this.#sendNow(asked);
  }

  tick(now: number): void {
    const asked = this.#queue[0];
    if (asked && now - asked.sentAt > this.#repeatMs) this.#sendNow(asked);
  }

  /** Send again what may have been lost with a connection before this one. */
  reconnected(openedAt: number): void {
    const asked = this.#queue[0];
    if (asked && asked.sentAt < openedAt) this.#sendNow(asked);
  }

  /** A frame could not be uploaded for good. */
  failed(frame: ClientFrame, error: unknown): void {
    if (this.#queue[0]?.frame !== frame) return;
    this.#queue[0].reject(error);
    this.#next();
  }

  /** Send again as soon as possible. */
  hurry(): void {
    const asked = this.#queue[0];
    if (asked) asked.sentAt = 1;
  }

  /** Give an event to the one who asked for it. */
  answer(event: SessionEvent): void {
    const asked = this.#queue[0];
    if (asked?.sentAt && asked.accepts(event)) {
      asked.resolve(event);
      this.#next();
    }
  }

  /** The server refused a frame. Gives whether somebody waits for the reply. */
  refused(error: ErrorFrame): boolean {
    const asked = this.#queue[0];
    if (!asked?.sentAt) return false;
    const mayRepeat = error.retryable && !["RATE_LIMITED", "BUSY"].includes(error.error_code);
    if (mayRepeat && asked.tries < TRIES) {
      asked.sentAt = Date.now() - this.#repeatMs + 1_000;
    } else {
      asked.reject(new SessionError("refused", error.message, error.error_code, error.retry_after));
      this.#next();
    }
    return true;
  }

  /** The session ended. */
  fail(error: unknown): void {
    for (const asked of this.#queue.splice(0)) asked.reject(error);
  }

  #next(): void {
    this.#queue.shift();
    this.repeat();
  }

  #sendNow(asked: Asked): void {
    asked.sentAt = Date.now();
    asked.tries++;
    this.#send(asked.frame);
  }
}
