import { SessionError } from "./errors.ts";

const SLOT = "{session_id}";
const PLACE = "codelab-session-id";
const SCHEMES: Record<string, string> = { "ws:": "ws", "wss:": "wss", "http:": "ws", "https:": "wss" };

/** A server. `rest` is the address of its REST API, up to and including `/api/v1`; empty if it is not known. */
export interface Address {
  /** The WebSocket's address, with `{session_id}` in it. */
  readonly socket: string;
  readonly rest: string;
  /** The server as a user reads it. */
  readonly shown: string;
  /** Whether TLS protects the connection. */
  readonly secure: boolean;
  /** Whether nobody on the way can read a token: TLS, or this very machine. */
  readonly private: boolean;
}

/**
 * Read what a user typed: `ws://host[:port]` (the local cloud), any address with `{session_id}` in it, or the stack's
 * output `wss://…/stage`. `http` and `https` mean `ws` and `wss`. `rest` is the stack's output `RestUrl`; the local
 * cloud does not need it.
 */
export function parseAddress(url: string, rest = ""): Address {
  let parts: URL | undefined;
  try {
    parts = new URL(url.trim().replaceAll(SLOT, PLACE));
  } catch {
    // Told below.
  }
  const scheme = parts && SCHEMES[parts.protocol];
  if (!parts || !scheme || !parts.host) {
    throw invalid(`${url} is not an address: it must look like ws://localhost:8000 or wss://host/stage`);
  }
  if (parts.username || parts.password) {
    throw invalid("An address must not contain a user name or a password; pass a token instead");
  }
  let path = parts.pathname;
  let query = parts.search;
  if (!url.includes(SLOT)) {
    if (path === "/") path = `/ws/${PLACE}`;
    else query += `${query ? "&" : "?"}session_id=${PLACE}`;
  }
  const web = scheme === "wss" ? "https" : "http";
  if (!rest && path.endsWith(`/ws/${PLACE}`)) rest = `${web}://${parts.host}/api/v1`;
  if (rest && !/^https?:\/\/[^/@]+(\/|$)/.test(rest)) throw invalid(`${rest} is not the address of a REST API`);
  rest = rest.replace(/\/+$/, "");
  if (rest && !rest.endsWith("/api/v1")) rest += "/api/v1";
  return {
    socket: `${scheme}://${parts.host}${path}${query}`.replaceAll(PLACE, SLOT),
    rest,
    shown: `${scheme}://${parts.host}`,
    secure: scheme === "wss",
    private: [`${scheme === "wss" ? "https:" : "http:"}//${parts.host}`, rest].every(isPrivate),
  };
}

function isPrivate(url: string): boolean {
  if (!url) return true;
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

/** The WebSocket's address for a session. */
export function socketUrl(address: Address, sessionId: string, query: string): string {
  const url = address.socket.replaceAll(SLOT, encodeURIComponent(sessionId));
  return `${url}${url.includes("?") ? "&" : "?"}${query}`;
}

/** The id itself, if the server would accept it. */
export function checkedSessionId(sessionId: string): string {
  if (!/^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,128}$/.test(sessionId)) {
    throw invalid(`${JSON.stringify(sessionId)} is not a session id: 1 to 128 characters of A-Z a-z 0-9 _ . : -, but not . or ..`);
  }
  return sessionId;
}

/** An id for a new conversation, which sorts by time. */
export function newSessionId(): string {
  const [day, time] = new Date().toISOString().split("T") as [string, string];
  return `${day.replaceAll("-", "")}-${time.slice(0, 8).replaceAll(":", "")}-${newId().slice(0, 6)}`;
}

/** 128 random bits in hex. Not `randomUUID`, which pages without TLS lack. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function invalid(message: string): SessionError {
  return new SessionError("invalid_address", message);
}
