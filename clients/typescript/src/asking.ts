import { newId } from "./address.ts";
import { SessionError } from "./errors.ts";
import type { SessionEvent } from "./events.ts";
import type { ClientFrame, ErrorFrame } from "./protocol.ts";

/** So often is a frame sent that the server refuses for now, before it counts as refused. */
const TRIES = 5;

interface Asked {
  frame: ClientFrame;
  isOrdered: boolean;
  resolve(reply: SessionEvent): void;
  reject(error: unknown): void;
  sentAt: number;
  tries: number;
}

/**
 * Frames that wait for their replies, and are sent again until the reply comes. Those whose order matters are sent one
 * after the other, because the server may take frames that are sent together in any order.
 */
export class Asking {
  readonly #repeatMs: number;
  readonly #send: (frame: ClientFrame) => void;
  #asked: Asked[] = [];

  constructor(repeatMs: number, send: (frame: ClientFrame) => void) {
    this.#repeatMs = repeatMs;
    this.#send = send;
  }

  /** Add a frame; `send` sends it. A message is known by its `client_msg_id`, which saves the server an `ack`. */
  ask(frame: ClientFrame, isOrdered: boolean): Promise<SessionEvent> {
    const named = messageOf(frame) === undefined ? { ...frame, request_id: newId() } : frame;
    return new Promise((resolve, reject) => {
      this.#asked.push({ frame: named, isOrdered, resolve, reject, sentAt: 0, tries: 0 });
    });
  }

  /** Send what has not been sent since a time. The session is online. */
  send(since: number): void {
    let isFirst = true;
    for (const asked of [...this.#asked]) {
      if (asked.isOrdered && !isFirst) continue;
      isFirst &&= !asked.isOrdered;
      if (asked.sentAt >= since) continue;
      asked.sentAt = Date.now();
      asked.tries++;
      this.#send(asked.frame);
    }
  }

  /** Send again what has been waiting for its reply for too long. */
  tick(now: number): void {
    this.send(now - this.#repeatMs);
  }

  /** Send everything again as soon as possible. */
  hurry(): void {
    for (const asked of this.#asked) asked.sentAt &&= 1;
  }

  /** Give an event to the one who asked for it. */
  answer(event: SessionEvent): void {
    if (event.type === "error") return;
    for (const asked of this.#asked.filter(({ frame }) => isReply(frame, event))) {
      asked.resolve(event);
      this.#remove(asked);
    }
  }

  /** The server refused a frame. Gives whether somebody who waits for its reply is told, and nobody else needs to be. */
  refused(error: ErrorFrame): boolean {
    const asked = this.#asked.find(({ frame }) => isReply(frame, error));
    if (!asked) return false;
    const mayRepeat = error.retryable && !["RATE_LIMITED", "BUSY"].includes(error.error_code);
    if (mayRepeat && asked.tries < TRIES) asked.sentAt = Date.now() - this.#repeatMs + 1_000;
    else this.#reject(asked, new SessionError("refused", error.message, error.error_code, error.retry_after));
    return asked.isOrdered;
  }

  /** A frame could not be uploaded for good. */
  failed(frame: ClientFrame, error: unknown): void {
    this.#reject(this.#asked.find((asked) => asked.frame === frame), error);
  }

  /** The session ended. */
  fail(error: unknown): void {
    for (const asked of this.#asked.splice(0)) asked.reject(error);
  }

  #reject(asked: Asked | undefined, error: unknown): void {
    asked?.reject(error);
    this.#remove(asked);
  }

  #remove(asked: Asked | undefined): void {
    if (!asked) return;
    this.#asked = this.#asked.filter((other) => other !== asked);
    this.send(1); // the next in order
  }
}

function messageOf(frame: ClientFrame): string | undefined {
  return (frame.type === "user_message" && frame.client_msg_id) || undefined;
}

function isReply(frame: ClientFrame, event: SessionEvent): boolean {
  const message = messageOf(frame);
  if (message === undefined) return "request_id" in event && event.request_id === frame.request_id;
  if (event.type === "withdrawn") return event.client_msg_ids.includes(message);
  // A `withdraw` or `cancel` has overtaken the message, which is not answered then.
  if (event.type === "ack") return event.outcome === "withdrawn" && event.client_msg_id === message;
  const says = event.type === "queued" || event.type === "user_message" || event.type === "error";
  return says && event.client_msg_id === message;
}
