import { SessionError, messageOf } from "./errors.ts";
import type { Fetch } from "./options.ts";
import type { ErrorCode } from "./protocol.ts";
import type { Query } from "./rest.ts";

/** A server's REST API. */
export interface Server {
  url: string;
  token: () => Promise<string>;
  fetch: Fetch;
}

/** See `request` of `Rest`. */
export async function request<Body>(server: Server, method: string, path: string, body?: unknown, query: Query = {}): Promise<Body> {
  const asked = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
  const answer = await send(server, method, path + (asked && `?${asked}`), body);
  let found: any;
  try {
    const text = await answer.text();
    found = text ? JSON.parse(text) : undefined;
  } catch (error) {
    if (answer.ok) throw new SessionError("unreachable", `${server.url} does not answer with JSON: ${messageOf(error)}`);
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

/** See `send` of `Rest`. */
export async function send({ url, token: newest, fetch }: Server, method: string, path: string, body?: unknown, timeoutMs = 30_000): Promise<Response> {
  if (!url) throw new SessionError("invalid_address", "The address of the REST API is not known: set restUrl");
  const token = await newest();
  try {
    return await fetch(url + path, {
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
    throw new SessionError("unreachable", `${url} does not answer: ${messageOf(error)}`);
  }
}
