import type { Address } from "./address.ts";
import { SessionError, messageOf } from "./errors.ts";
import type { LinkEnd } from "./link.ts";
import { loaded } from "./loaded.ts";
import type { Rest } from "./rest.ts";
import { expiresAt } from "./tokens.ts";

interface ConnectorOptions {
  address: Address;
  /** The REST API for a token. */
  rest(token: string): Rest;
  /** How long to wait after a failure at a time, at least so long (milliseconds). */
  pause(now: number, leastMs: number): number;
  token(): Promise<string>;
  /** Keeps one connection until it has ended. */
  connect(token: string): Promise<LinkEnd>;
  /** `error`: why the server refused the connection, if it said so. */
  offline(why: string, retryInMs: number, error?: SessionError): void;
}

/** Opens one connection after another, until the session ends or there is no hope. */
export class Connector {
  readonly #options: ConnectorOptions;
  /** What finds out why a connection was refused. */
  readonly #refusals = loaded(() => import("./refusal.ts"));
  /** Refused connections whose reason the server did not say. */
  #tries = 0;
  #wasOnline = false;
  #stopped = false;
  #replacing = false;
  #mayHurry = false;
  #wake: (() => void) | undefined;

  constructor(options: ConnectorOptions) {
    this.#options = options;
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

  /** The network is back: do not wait any longer, unless the server has asked for it. */
  hurry(): void {
    if (this.#mayHurry) this.#wake?.();
  }

  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }

  /** Settles when the connector is stopped; throws if there is no hope. */
  async run(): Promise<void> {
    const { token: newest, connect } = this.#options;
    let refused: { token: string; why: SessionError } | undefined;
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
      if (token === refused?.token) throw refused.why;
      const end = await connect(token);
      if (this.#stopped) return;
      if (this.#replacing) {
        this.#replacing = false;
        continue;
      }
      if (end.opened && (end.code === 1000 || end.code === 1003)) {
        const why = "The server closed the session: it was deleted, the tokens were revoked, or newer connections replaced this one";
        throw new SessionError("closed", end.code === 1000 ? why : end.why);
      }
      const refusal = end.opened ? undefined : await this.#refusal(token);
      if (this.#stopped) return;
      if (refusal?.kind === "unauthorized") {
        // A newer token gets one try. Where each question gives another one, that would not end.
        if (refused) throw refusal;
        refused = { token, why: refusal };
        continue;
      }
      refused = undefined;
      await this.#pause(end.why, refusal);
    }
  }

  /** Wait for a time that grows with each failure, and for as long as the server asks for. */
  async #pause(why: string, refusal?: SessionError): Promise<void> {
    if (this.#stopped) return;
    const pause = this.#options.pause(Date.now(), (refusal?.retryAfter ?? 0) * 1000);
    this.#mayHurry = !refusal;
    this.#options.offline(refusal?.message ?? why, pause, refusal);
    if (this.#stopped) return; // a listener has closed the session
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Why the server refused a connection, if it says so. Throws if there is no hope. */
  async #refusal(token: string): Promise<SessionError | undefined> {
    const { address, rest } = this.#options;
    try {
      const hasExpired = expiresAt(token) < Date.now();
      const why = await (await this.#refusals()).refusal({ address, rest: rest(token), token, hasExpired, tries: this.#tries });
      if (!why) this.#tries++;
      return why;
    } catch (error) {
      if (!this.#wasOnline) throw error;
      return undefined;
    }
  }
}
