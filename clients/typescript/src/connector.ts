import type { Address } from "./address.ts";
import { SessionError, messageOf } from "./errors.ts";
import type { LinkEnd } from "./link.ts";
import type { Rest } from "./rest.ts";
import { expiresAt } from "./tokens.ts";

/** So often may the first connection fail although the server answers over HTTP. */
const FIRST_TRIES = 5;
/** How long the REST API may take to say why a connection was refused. */
const WHY_MS = 5_000;

interface ConnectorOptions {
  address: Address;
  rest: Rest;
  /** How long to wait after a failure at a time. */
  pause(now: number): number;
  token(): Promise<string>;
  /** Keeps one connection until it has ended. */
  connect(token: string): Promise<LinkEnd>;
  offline(why: string, retryInMs: number): void;
}

/** Opens one connection after another, until the session ends or there is no hope. */
export class Connector {
  readonly #options: ConnectorOptions;
  #tries = 0;
  #wasOnline = false;
  #stopped = false;
  #replacing = false;
  #wake: (() => void) | undefined;

  constructor(options: ConnectorOptions) {
    this.#options = options;
    (globalThis as Partial<EventTarget>).addEventListener?.("online", this.hurry);
  }

  /** Whether a connection was online before. */
  get wasOnline(): boolean {
    return this.#wasOnline;
  }

  /** The connection is online. */
  online(): void {
    this.#wasOnline = true;
  }

  /** The next connection follows at once, without a word. */
  replace(): void {
    this.#replacing = true;
  }

  /** The network is back: do not wait any longer. */
  readonly hurry = (): void => this.#wake?.();

  stop(): void {
    this.#stopped = true;
    (globalThis as Partial<EventTarget>).removeEventListener?.("online", this.hurry);
    this.#wake?.();
  }

  /** Settles when the connector is stopped; throws if there is no hope. */
  async run(): Promise<void> {
    const { token: newest, connect } = this.#options;
    let refused: string | undefined;
    while (!this.#stopped) {
      let token: string;
      try {
        token = await newest();
      } catch (error) {
        // Its source may be out of reach like the server.
        if (error instanceof SessionError || !this.#wasOnline) throw error;
        await this.#pause(`there is no token: ${messageOf(error)}`);
        continue;
      }
      if (this.#stopped) return;
      if (token === refused) {
        throw new SessionError("unauthorized", token ? "The server does not accept the token" : "The server needs a token");
      }
      const isRenewed = refused !== undefined;
      refused = undefined;
      const end = await connect(token);
      if (this.#stopped) return;
      if (this.#replacing) {
        this.#replacing = false;
        continue;
      }
      if (end.opened && (end.code === 1000 || end.code === 1003)) {
        throw new SessionError(
          "closed",
          end.code === 1000
            ? "The server closed the session: it was deleted, the tokens were revoked, or newer connections replaced this one"
            : "The server does not accept binary data",
        );
      }
      if (!end.opened && (await this.#isRefused(token))) {
        refused = token;
        if (!isRenewed) continue;
      }
      await this.#pause(end.why);
    }
  }

  /** Wait for a time that grows with each failure. */
  async #pause(why: string): Promise<void> {
    if (this.#stopped) return;
    const pause = this.#options.pause(Date.now());
    this.#options.offline(why, pause);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /**
   * Find out why a connection was refused: a browser does not tell. Gives whether the token is to blame; throws if
   * there is no hope.
   */
  async #isRefused(token: string): Promise<boolean> {
    const { rest, address } = this.#options;
    let status = 0;
    if (rest.url && (token || !this.#wasOnline)) {
      try {
        status = (await rest.send("GET", "/usage", undefined, WHY_MS)).status;
      } catch {
        // Then nothing answers there either.
      }
    }
    if (this.#stopped) return false;
    const expires = expiresAt(token);
    if (status === 401 || (expires !== undefined && expires < Date.now())) return true;
    if (this.#wasOnline || status === 429) return false;
    if (!status) {
      const refuses = rest.url ? "does not allow this page" : "refuses the token or this page";
      throw new SessionError("unreachable", `Nothing answers at ${address.shown}, or it ${refuses}`);
    }
    if (status === 404 || ++this.#tries >= FIRST_TRIES) {
      throw new SessionError("unreachable", `${address.shown} answers, but does not accept a WebSocket for this session`);
    }
    return false;
  }
}
