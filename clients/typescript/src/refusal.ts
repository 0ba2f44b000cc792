import type { Address } from "./address.ts";
import { SessionError } from "./errors.ts";
import type { Rest } from "./rest.ts";

/** So often may the first connection fail although the server answers over HTTP. */
const FIRST_TRIES = 5;
/** How long the REST API may take to say why a connection was refused. */
const WHY_MS = 5_000;
/** The user's quota that bounds how often a client may connect. */
const QUOTA = "connections_per_minute";

/** A connection that was refused. */
export interface Refused {
  address: Address;
  /** The REST API for its token. */
  rest: Rest;
  token: string;
  hasExpired: boolean;
  /** How many were refused before it, for a reason that the server did not say. */
  tries: number;
}

/**
 * Ask over HTTP why a connection was refused: a browser does not tell. Gives `unauthorized` if the token is to blame, and
 * `refused` with the code RATE_LIMITED if there were too many connections; nothing if the server does not say. Throws
 * if a client that was never online need not try again.
 */
export async function refusal({ address, rest, token, hasExpired, tries }: Refused): Promise<SessionError | undefined> {
  const { url } = rest;
  const answer = url ? await rest.send("GET", "/usage", undefined, WHY_MS).catch(() => undefined) : undefined;
  const status = answer?.status;
  // What an unreachable server would say of an expired token is known.
  if (status === 401 || (!status && hasExpired)) {
    const why = hasExpired ? "The token has expired" : "The server does not accept the token";
    return new SessionError("unauthorized", token ? why : "The server needs a token");
  }
  const limit = answer && (await limitOf(answer));
  if (limit) return limit;
  if (!status) {
    const refuses = url ? "does not allow this page" : "refuses the token or this page";
    throw new SessionError("unreachable", `Nothing answers at ${address.shown}, or it ${refuses}`);
  }
  if (status === 404 || tries + 1 >= FIRST_TRIES) {
    throw new SessionError("unreachable", `${address.shown} answers, but does not accept a WebSocket for this session`);
  }
  return undefined;
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
