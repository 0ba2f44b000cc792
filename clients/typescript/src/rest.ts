import { checkedSessionId, type Address } from "./address.ts";
import { SessionError, messageOf } from "./errors.ts";
import type { Fetch } from "./options.ts";
import type { ErrorCode } from "./protocol.ts";

/** A session, as `GET /sessions` lists it. */
export interface SessionSummary {
  session_id: string;
  title: string;
  last_activity: string;
  [field: string]: unknown;
}

/** A message of the history. */
export interface HistoryMessage {
  id: string;
  role: "user" | "assistant" | "system" | "tool";
  content: string;
  created_at: string;
  [field: string]: unknown;
}

/** A page of the history: its messages are oldest first; `next_cursor` asks for the page before. */
export interface HistoryPage {
  messages: HistoryMessage[];
  total: number;
  last_seq: number;
  next_cursor?: string | null;
  [field: string]: unknown;
}

/** The REST API beside the WebSocket (docs/rest.md). Every method throws a SessionError. */
export class Rest {
  /** Up to and including `/api/v1`; empty if it is not known. */
  readonly url: string;
  readonly #token: () => Promise<string>;
  readonly #fetch: Fetch;

  constructor(address: Address, token: () => Promise<string>, fetch: Fetch) {
    this.url = address.rest;
    this.#token = token;
    this.#fetch = fetch;
  }

  /** The sessions of the user, latest activity first. */
  sessions(query: Query = {}): Promise<{ sessions: SessionSummary[]; next_cursor?: string | null }> {
    return this.request("GET", `/sessions${asked(query)}`);
  }

  /** The messages of a session, newest page first. */
  history(sessionId: string, query: Query = {}): Promise<HistoryPage> {
    return this.request("GET", `/chat/history/${named(sessionId)}${asked(query)}`);
  }

  /** Change a session's title or settings. */
  update(sessionId: string, changes: { title?: string; settings?: Record<string, unknown> }): Promise<unknown> {
    return this.request("PATCH", `/sessions/${named(sessionId)}`, changes);
  }

  /** A new session with the history of another, or its first `up_to` messages. */
  fork(sessionId: string, fields: { up_to?: number; title?: string } = {}): Promise<{ session_id: string }> {
    return this.request("POST", `/sessions/${named(sessionId)}/fork`, fields);
  }

  async delete(sessionId: string): Promise<void> {
    await this.request("DELETE", `/sessions/${named(sessionId)}`);
  }

  /** Send a request to a path below `/api/v1`, such as `/agents`. Gives the body of the answer. */
  async request<Body = any>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.send(method, path, body);
    let found: any;
    try {
      const text = await answer.text();
      found = text ? JSON.parse(text) : undefined;
    } catch (error) {
      if (answer.ok) throw new SessionError("unreachable", `${this.url} does not answer with JSON: ${messageOf(error)}`);
    }
    if (answer.ok) return found;
    const told = found?.error;
    const code: ErrorCode | undefined = told?.code;
    throw new SessionError(
      answer.status === 401 ? "unauthorized" : "refused",
      String(told?.message ?? `${method} ${path} was answered with HTTP ${answer.status}`),
      code,
      Number(answer.headers.get("retry-after")) || undefined,
    );
  }

  /** Send a request, and give its answer whatever its status. */
  async send(method: string, path: string, body?: unknown, timeoutMs = 30_000): Promise<Response> {
    if (!this.url) throw new SessionError("invalid_address", "The address of the REST API is not known: set restUrl");
    const token = await this.#token();
    try {
      return await this.#fetch(this.url + path, {
        method,
        headers: {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        redirect: "error",
        credentials: "omit",
        signal: AbortSignal.timeout(timeoutMs),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
    } catch (error) {
      throw new SessionError("unreachable", `${this.url} does not answer: ${messageOf(error)}`);
    }
  }
}

function named(sessionId: string): string {
  return encodeURIComponent(checkedSessionId(sessionId));
}

type Query = Record<string, string | number | boolean>;

function asked(query: Query): string {
  const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}
