import { SessionError } from "./errors.ts";

const SLOT = "{session_id}";
const PLACE = "codelab-session-id";

/** A server. `rest` is the address of its REST API, up to and including `/api/v1`; empty if it is not known. */
export interface Address {
  /** The WebSocket's address, with `{session_id}` in it. */
  readonly socket: string;
  readonly rest: string;
  /** The server as a user reads it. */
  readonly shown: string;
  /** Whether nobody on the way can read a token: TLS, or this very machine. */
  readonly private: boolean;
}

/**
 * Read what a user typed: `ws://host[:port]` (the local cloud), any address with `{session_id}` in it, or the stack's
 * output `wss://…/stage`. `http` and `https` mean `ws` and `wss`. `rest` is the stack's output `RestUrl`; the local
 * cloud does not need it.
 */
export function parseAddress(url: string, rest = ""): Address {
  const web = url.trim().replace(/^ws/i, "http");
  let parts: URL | undefined;
  try {
    parts = new URL(web.replaceAll(SLOT, PLACE));
  } catch {
    // Told below.
  }
  if (!parts || !/^https?:$/.test(parts.protocol)) {
    throw invalid(`${url} is not an address: it must look like ws://localhost:8000 or wss://host/stage`);
  }
  if (parts.username || parts.password) {
    throw invalid("An address must contain no user name or password: pass a token");
  }
  if (!web.includes(SLOT)) {
    if (parts.pathname === "/") parts.pathname = `/ws/${PLACE}`;
    else parts.search += `${parts.search ? "&" : "?"}session_id=${PLACE}`;
  }
  parts.hash = "";
  const { origin } = parts;
  if (!rest && parts.pathname.endsWith(`/ws/${PLACE}`)) rest = origin;
  if (rest && !/^https?:\/\/[^/@]+(\/|$)/.test(rest)) throw invalid(`${rest} is not the address of a REST API`);
  rest &&= rest.replace(/(\/api\/v1)?\/*$/, "/api/v1");
  return {
    socket: parts.href.replace("http", "ws").replaceAll(PLACE, SLOT),
    rest,
    shown: origin.replace("http", "ws"),
    private: [origin, rest].every((each) => /^(https:|http:\/\/(localhost|127(\.\d+){3}|\[::1\])(:\d+)?(\/|$)|$)/.test(each)),
  };
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
  const now = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "");
  return `${now.replace("T", "-")}-${newId().slice(0, 6)}`;
}

/** 128 random bits in hex. Not `randomUUID`, which pages without TLS lack. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function invalid(message: string): SessionError {
  return new SessionError("invalid_address", message);
}
