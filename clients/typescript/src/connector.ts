import type { Address } from "./address.ts";
import { SessionError, messageOf } from "./errors.ts";
import type { LinkEnd } from "./link.ts";
import type { Rest } from "./rest.ts";
import { expiresAt } from "./tokens.ts";

/** So often may the first connection fail although the server answers over HTTP. */
const FIRST_TRIES = 5;
/** How long the REST API may take to say why a connection was refused. */
const WHY_MS = 5_000;
/** The user's quota that bounds how often a client may connect. */
const QUOTA = "connections_per_minute";

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
  #tries = 0;
  #wasOnline = false;
  #stopped = false;
  #replacing = false;
  #mayHurry = false;
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

  /** The network is back: do not wait any longer, unless the server has asked for it. */
  readonly hurry = (): void => {
    if (this.#mayHurry) this.#wake?.();
  };

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
      if (token === refused) throw unauthorized(token);
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
      const refusal = end.opened ? undefined : await this.#refusal(token);
      if (this.#stopped) return;
      if (refusal?.kind === "unauthorized") {
        // A newer token gets one try. Where each question gives another one, that would not end.
        if (refused !== undefined) throw refusal;
        refused = token;
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

  /**
   * Ask over HTTP why a connection was refused: a browser does not tell. Gives `unauthorized` if the token is to blame, and
   * `refused` with the code RATE_LIMITED if there were too many connections; nothing if the server does not say. Throws
   * if there is no hope.
   */
  async #refusal(token: string): Promise<SessionError | undefined> {
    const { address, rest: restOf } = this.#options;
    const rest = restOf(token);
    const answer = rest.url ? await rest.send("GET", "/usage", undefined, WHY_MS).catch(() => undefined) : undefined;
    const status = answer?.status;
    // What an unreachable server would say of an expired token is known.
    if (status === 401 || (!status && hasExpired(token))) return unauthorized(token);
    const limit = answer && (await limitOf(answer));
    if (limit || this.#wasOnline || this.#stopped) return limit;
    if (!status) {
      const refuses = rest.url ? "does not allow this page" : "refuses the token or this page";
      throw new SessionError("unreachable", `Nothing answers at ${address.shown}, or it ${refuses}`);
    }
    if (status === 404 || ++this.#tries >= FIRST_TRIES) {
      throw new SessionError("unreachable", `${address.shown} answers, but does not accept a WebSocket for this session`);
    }
    return undefined;
  }
}

function unauthorized(token: string): SessionError {
  const why = hasExpired(token) ? "The token has expired" : "The server does not accept the token";
  return new SessionError("unauthorized", token ? why : "The server needs a token");
}

function hasExpired(token: string): boolean {
  return (expiresAt(token) ?? Infinity) < Date.now();
}

/** The limit that the answer to `GET /usage` tells of: the server's, or the user's quota of new connections. */
async function limitOf(answer: Response): Promise<SessionError | undefined> {
  if (answer.status === 429) return tooMany("The server gets too many requests at the moment", Number(answer.headers.get("retry-after")));
  const told = await answer.json().catch(() => undefined);
  const { used, limit, resets_at: resetsAt } = told?.quotas?.[QUOTA] ?? {};
  if (!(used >= limit)) return undefined;
  return tooMany(`Over the quota of ${Number(limit)} new connections per minute`, (resetsAt - Date.now()) / 1000);
}

function tooMany(message: string, seconds: number): SessionError {
  return new SessionError("refused", message, "RATE_LIMITED", seconds > 0 ? Math.ceil(seconds) : undefined);
}
