import { checkedSessionId, type Address } from "./address.ts";
import { loaded } from "./loaded.ts";
import type { Fetch } from "./options.ts";
import type { Server } from "./requests.ts";

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

export type Query = Record<string, string | number | boolean>;

/** What asks over HTTP. */
export const overHttp = loaded(() => import("./over_http.ts"));
export type OverHttp = typeof import("./over_http.ts");

/** The REST API beside the WebSocket (docs/rest.md). Every method throws a SessionError. */
export class Rest {
  /** Up to and including `/api/v1`; empty if it is not known. */
  readonly url: string;
  readonly #server: Server;

  constructor({ rest: url }: Address, token: () => Promise<string>, fetch: Fetch) {
    this.url = url;
    this.#server = { url, token, fetch };
  }

  /** The sessions of the user, latest activity first. */
  sessions(query?: Query): Promise<{ sessions: SessionSummary[]; next_cursor?: string | null }> {
    return this.request("GET", "/sessions", undefined, query);
  }

  /** The messages of a session, newest page first. */
  async history(sessionId: string, query?: Query): Promise<HistoryPage> {
    return this.request("GET", `/chat/history/${named(sessionId)}`, undefined, query);
  }

  /** Change a session's title or settings. */
  async update(sessionId: string, changes: { title?: string; settings?: Record<string, unknown> }): Promise<unknown> {
    return this.request("PATCH", `/sessions/${named(sessionId)}`, changes);
  }

  /** A new session with the history of another, or its first `up_to` messages. */
  async fork(sessionId: string, fields: { up_to?: number; title?: string } = {}): Promise<{ session_id: string }> {
    return this.request("POST", `/sessions/${named(sessionId)}/fork`, fields);
  }

  async delete(sessionId: string): Promise<void> {
    await this.request("DELETE", `/sessions/${named(sessionId)}`);
  }

  /** Send a request to a path below `/api/v1`, such as `/agents`. Gives the body of the answer. */
  async request<Body = any>(method: string, path: string, body?: unknown, query?: Query): Promise<Body> {
    return (await overHttp()).request<Body>(this.#server, method, path, body, query);
  }

  /** Send a request, and give its answer whatever its status. */
  async send(method: string, path: string, body?: unknown, timeoutMs?: number): Promise<Response> {
    return (await overHttp()).send(this.#server, method, path, body, timeoutMs);
  }
}

function named(sessionId: string): string {
  return encodeURIComponent(checkedSessionId(sessionId));
}
