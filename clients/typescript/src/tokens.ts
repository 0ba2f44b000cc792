import { SessionError } from "./errors.ts";

/** A JWT, or what gives the newest one. */
export type Token = string | (() => string | Promise<string>);

/** A token is refreshed so many milliseconds before it expires, or after nine tenths of its life if that is later. */
const AHEAD_MS = 60_000;

/** The newest token; empty if there is none. */
export async function currentToken(token: Token | undefined): Promise<string> {
  const found = ((typeof token === "function" ? await token() : token) ?? "").trim();
  // WebSocket's constructor would show a token that it does not accept as a subprotocol in its error.
  if (!/^[\w.~+/=-]*$/.test(found)) throw new SessionError("unauthorized", "The token is not a JWT");
  return found;
}

/** When (ms since the epoch) to ask for a newer token; NaN if this one does not say when it expires. */
export function refreshAt(token: string): number {
  const expires = expiresAt(token);
  const { iat } = claims(token);
  const issued = typeof iat === "number" ? iat * 1000 : Date.now();
  return Math.max(expires - AHEAD_MS, issued + (expires - issued) * 0.9);
}

/** When (ms since the epoch) a token expires; NaN if it does not say so. */
export function expiresAt(token: string): number {
  const { exp } = claims(token);
  return typeof exp === "number" ? exp * 1000 : NaN;
}

/** Whether a token says that it has not expired. */
export function isValid(token: string): boolean {
  return expiresAt(token) >= Date.now();
}

/** The user of a token; empty if it does not say. */
export function subject(token: string): string {
  const { sub } = claims(token);
  return typeof sub === "string" ? sub : "";
}

/** The claims of a JWT, which only the server can verify; none if it is no JWT. */
export function claims(token: string): Record<string, unknown> {
  try {
    const part = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (char) => char.charCodeAt(0));
    return Object(JSON.parse(new TextDecoder().decode(bytes)));
  } catch {
    return {};
  }
}
