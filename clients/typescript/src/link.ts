import { Listeners } from "./listeners.ts";
import type { WireEntry } from "./wire.ts";

/** The part of a WebSocket that the client uses; browsers', Node's and `ws` have it. */
export interface WebSocketLike {
  readonly readyState: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}

export type WebSocketConstructor = new (url: string, protocols?: string[]) => WebSocketLike;

/** How a connection ended. `opened`: it was open before; `code` 0: this client cut it. */
export interface LinkEnd {
  opened: boolean;
  code: number;
  why: string;
}

const OPEN = 1;

/** One WebSocket, from its opening to its end. */
export class Link {
  /** Settles when the connection has ended, for any reason. */
  readonly ended: Promise<LinkEnd>;
  /** When something was received last. */
  heardAt = Date.now();
  readonly openedAt = Date.now();
  readonly #socket: WebSocketLike;
  #end!: (end: LinkEnd) => void;
  #opened = false;
  #over = false;

  constructor(
    WebSocket: WebSocketConstructor,
    url: string,
    protocols: string[],
    openMs: number,
    handlers: { open(): void; message(data: unknown): void },
  ) {
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#socket = new WebSocket(url, protocols);
    const timer = setTimeout(() => this.#finish(0, "no answer in time"), openMs);
    void this.ended.then(() => clearTimeout(timer));
    this.#socket.onopen = () => {
      if (this.#over) return;
      clearTimeout(timer);
      this.#opened = true;
      this.heardAt = Date.now();
      handlers.open();
    };
    this.#socket.onmessage = ({ data }: { data: unknown }) => {
      if (this.#over) return;
      this.heardAt = Date.now();
      handlers.message(data);
    };
    this.#socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
      const what = this.#opened ? "the connection was closed" : "the server is out of reach, or refuses the connection";
      this.#finish(code, `${what} (${code}${reason ? `, ${String(reason).slice(0, 100)}` : ""})`);
    };
    this.#socket.onerror = () => {
      // `close` follows, with a code. An error of a connection that was cut is of no interest.
    };
  }

  /** Send a text. Returns whether the connection took it, not whether it arrived. */
  send(text: string): boolean {
    if (this.#over || this.#socket.readyState !== OPEN) return false;
    this.#socket.send(text);
    return true;
  }

  /** End the connection without waiting for the other side. */
  cut(why: string, code = 1000): void {
    this.#finish(0, why);
    try {
      this.#socket.close(code);
    } catch {
      // It was not open yet, or is closed.
    }
  }

  #finish(code: number, why: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#end({ opened: this.#opened, code, why });
    if (code === 0 && !this.#opened) this.cut(why);
  }
}

/** Tells an inspector's listeners what happens on the wire. */
export class WireReport {
  readonly #listeners = new Listeners<WireEntry>();
  readonly on = this.#listeners.on;
  connection = 0;

  report(kind: WireEntry["kind"], text: string, more: Partial<WireEntry> = {}): void {
    if (!this.#listeners.areThere) return;
    const { frame } = more;
    const shown = frame?.["type"] === "refresh_token" ? { ...frame, token: "…" } : frame;
    const entry = {
      kind,
      at: Date.now(),
      connection: this.connection,
      bytes: new TextEncoder().encode(text).length,
      text: shown === frame ? text : JSON.stringify(shown),
      ...more,
      frame: shown,
    };
    this.#listeners.tell(entry);
  }
}
