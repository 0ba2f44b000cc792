/**
 * A server that refuses connections. Neither a browser nor `onclose` tells the status: the client learns it over HTTP, and only
 * then.
 */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocketServer } from "ws";
import { afterEach, expect, test } from "vitest";

import type { SessionEventOf } from "../src/index.ts";
import { eventually, jwt, newSession, stopAll } from "./server.ts";

interface Refusing {
  url: string;
  /** The tokens of the connections that were tried, and of the questions over HTTP. */
  tried: string[];
  asked: string[];
  /** Answers a connection; 101 accepts it. */
  status: (token: string) => number;
  /** Answers a question over HTTP. */
  answer: (token: string) => { status: number; headers?: Record<string, string>; body?: unknown };
}

const servers: Server[] = [];

afterEach(async () => {
  await stopAll();
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function refusing(status: Refusing["status"], answer: Refusing["answer"]): Promise<Refusing> {
  const accepted = new WebSocketServer({ noServer: true, handleProtocols: () => "codelab" });
  const served: Refusing = { url: "", tried: [], asked: [], status, answer };
  const server = createServer((request, response) => {
    const token = (request.headers.authorization ?? "").replace("Bearer ", "");
    served.asked.push(`${token} ${request.method} ${request.url}`);
    const { status, headers, body } = served.answer(token);
    response.writeHead(status, headers).end(JSON.stringify(body ?? {}));
  });
  server.on("upgrade", (request, socket, head) => {
    const token = (request.headers["sec-websocket-protocol"] ?? "").split("token.")[1] ?? "";
    served.tried.push(token);
    const status = served.status(token);
    if (status !== 101) return socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 0\r\n\r\n`);
    accepted.handleUpgrade(request, socket, head, (opened) => {
      opened.on("message", (data) => {
        const { type } = JSON.parse(String(data));
        if (type === "hello") opened.send(JSON.stringify({ type: "session_info", limits: {}, ...INFO }));
        else if (type === "resume") opened.send(JSON.stringify({ type: "resumed", last_seq: 0, open_calls: [] }));
      });
    });
  });
  servers.push(server.listen(0, "127.0.0.1"));
  await once(server, "listening");
  served.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return served;
}

const INFO = { session_id: "s", agent: "coder", status: "idle", title: "", last_seq: 0, pending_calls: [], plan: [], settings: {} };
const GOOD = jwt({ sub: "ann", n: "good" });
const tokens = (): string[] => Array.from({ length: 50 }, (_, n) => jwt({ sub: "ann", n }));
const good = (token: string) => token === GOOD;
const checked = (token: string) => (good(token) ? { status: 200 } : { status: 401 });
const quota = (used: number, resetsAt: unknown) => ({
  status: 200,
  body: { quotas: { connections_per_minute: { used, limit: 8, resets_at: resetsAt } } },
});

test("a connection that is accepted asks nothing over HTTP", async () => {
  const served = await refusing(() => 101, checked);
  await newSession(served.url, { token: GOOD }).open();
  expect([served.tried, served.asked]).toEqual([[GOOD], []]);
});

test("a refused token is tried once, and asked about as itself", async () => {
  const served = await refusing(() => 401, checked);
  const opening = newSession(served.url, { token: jwt({ sub: "ann" }) }).open();
  await expect(opening).rejects.toMatchObject({ kind: "unauthorized", message: "The server does not accept the token" });
  expect(served.tried).toEqual([jwt({ sub: "ann" })]);
  expect(served.asked).toEqual([`${jwt({ sub: "ann" })} GET /api/v1/usage`]);
});

test("a token that has expired is called so", async () => {
  const served = await refusing(() => 401, checked);
  const opening = newSession(served.url, { token: jwt({ sub: "ann", exp: 1 }) }).open();
  await expect(opening).rejects.toMatchObject({ kind: "unauthorized", message: "The token has expired" });
});

test("a refused token is renewed once, at once", async () => {
  const served = await refusing((token) => (good(token) ? 101 : 401), checked);
  const [named, refused] = tokens() as [string, string];
  const given = [named, refused, GOOD];
  const session = newSession(served.url, { token: () => given.shift() ?? GOOD, timing: { pauseMs: 1e9, longestPauseMs: 1e9 } });
  await session.open();
  expect(served.tried).toEqual([refused, GOOD]);
  expect(served.asked).toEqual([`${refused} GET /api/v1/usage`]);
});

test("a source of tokens that are all refused is not asked for ever", async () => {
  const served = await refusing(() => 401, checked);
  const given = tokens();
  const opening = newSession(served.url, { token: () => given.shift()! }).open();
  await expect(opening).rejects.toMatchObject({ kind: "unauthorized" });
  expect(served.tried).toEqual(tokens().slice(1, 3)); // the first one named the journal
});

test("a clock that is ahead refuses no token that the server accepts", async () => {
  let refusals = 2;
  const served = await refusing(
    () => (refusals-- > 0 ? 503 : 101),
    () => ({ status: 200 }),
  );
  await newSession(served.url, { token: jwt({ sub: "ann", exp: 1 }) }).open();
  expect(served.tried).toHaveLength(3);
});

test.each([
  ["a quota", () => quota(8, Date.now() + 30_000), "Over the quota of 8 new connections per minute"],
  ["429 with Retry-After", () => ({ status: 429, headers: { "retry-after": "30" } }), "The server gets too many requests at the moment"],
])("too many connections (%s) are waited for, however often, and told", async (_, answer, why) => {
  let refusals = 9;
  const served = await refusing(() => (refusals-- > 0 ? 429 : 101), answer);
  const offline: SessionEventOf<"offline">[] = [];
  const session = newSession(served.url, { token: GOOD, timing: { pauseMs: 1, longestPauseMs: 20, tickMs: 5 } });
  session.on("offline", (event) => offline.push(event));
  await session.open();
  expect(offline.map((event) => event.why)).toEqual(Array(9).fill(why));
  for (const { error, retryInMs } of offline) {
    expect(error).toMatchObject({ kind: "refused", code: "RATE_LIMITED", retryAfter: 30 });
    expect(retryInMs).toBeGreaterThan(20); // what the server asks for, up to the longest pause, and a random time
    expect(retryInMs).toBeLessThanOrEqual(40);
  }
});

test.each([
  ["-5", undefined],
  ["Wed, 21 Oct 2026 07:28:00 GMT", undefined],
  ["1e9", 1e9],
])("no Retry-After (%s) makes the client hurry, or sleep for ever", async (header, retryAfter) => {
  let refusals = 3;
  const served = await refusing(
    () => (refusals-- > 0 ? 429 : 101),
    () => ({ status: 429, headers: { "retry-after": header } }),
  );
  const offline: SessionEventOf<"offline">[] = [];
  const session = newSession(served.url, { onEvent: (event) => event.type === "offline" && offline.push(event) });
  await session.open();
  for (const { error, retryInMs } of offline) {
    expect(error?.retryAfter).toBe(retryAfter);
    expect(retryInMs).toBeGreaterThanOrEqual(10);
    expect(retryInMs).toBeLessThanOrEqual(100);
  }
});

test.each([[[]], [null], ["nonsense"], [{ quotas: [] }], [quota(7, 0).body], [quota(9, "soon").body], [{ quotas: { connections_per_minute: null } }]])(
  "an answer of any kind (%j) ends the first connection after five tries at most, or is waited for",
  async (body) => {
    const served = await refusing(
      () => 500,
      () => ({ status: 200, body }),
    );
    const offline: SessionEventOf<"offline">[] = [];
    const session = newSession(served.url, { onEvent: (event) => event.type === "offline" && offline.push(event) });
    const opening = session.open();
    opening.catch(() => {});
    await eventually(() => offline.length >= 4);
    if (offline[0]?.error) return session.close();
    await expect(opening).rejects.toMatchObject({ kind: "unreachable" });
    expect(served.tried).toHaveLength(5);
  },
);

test("a server that refuses for half a minute gets a dozen connections, each with one question", async () => {
  const served = await refusing(
    () => 429,
    () => ({ status: 429 }),
  );
  newSession(served.url, { timing: { pauseMs: 12, longestPauseMs: 1_500 } }).open().catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 750)); // 30 s, if pauses were of half a second to a minute
  console.log(`refused connections: ${served.tried.length} in 30 s`);
  expect(served.tried.length).toBeLessThanOrEqual(12);
  expect(Math.abs(served.tried.length - served.asked.length)).toBeLessThanOrEqual(1);
});

test("a session that was online comes back after any refusal", async () => {
  const statuses = [101, 500, 429, 503, 429, 503, 429, 101];
  const served = await refusing(
    () => statuses.shift() ?? 101,
    () => ({ status: 500 }),
  );
  const session = await newSession(served.url, { token: GOOD }).open();
  session.wire.cut();
  await eventually(() => served.tried.length === 8 && session.isOnline);
});
