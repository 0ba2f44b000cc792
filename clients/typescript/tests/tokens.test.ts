/** Tokens travel as subprotocols, are refreshed in time, and show up nowhere. */

import { afterEach, expect, test } from "vitest";

import type { WireEntry } from "../src/index.ts";
import { eventually, jwt, newSession, openSession, serve, stopAll } from "./server.ts";

afterEach(stopAll);

const now = (): number => Math.floor(Date.now() / 1000);

test("a token is a subprotocol and never part of the address", async () => {
  const served = await serve();
  const token = jwt({ sub: "ann" });
  await openSession(served.url, { token });
  expect(served.offered).toEqual([["codelab", `token.${token}`]]);
});

test("a token is refreshed before it expires, and no inspector sees it", async () => {
  const tokens = [jwt({ sub: "ann", iat: now() - 1000, exp: now() + 30 }), jwt({ sub: "ann", iat: now(), exp: now() + 1000 })];
  const wire: WireEntry[] = [];
  let asked = 0;
  const served = await serve((frame, { tell, info }) => {
    if (frame["type"] === "refresh_token") tell({ type: "session_info", limits: {}, ...info });
  });
  const session = await openSession(served.url, {
    token: () => (asked++ < 2 ? tokens[0] : tokens[1]) as string,
    onWire: (entry) => wire.push(entry),
  });
  await eventually(() => served.frames.some((frame) => frame["type"] === "refresh_token"));
  expect(served.frames.find((frame) => frame["type"] === "refresh_token")).toMatchObject({ token: tokens[1] });
  await eventually(() => session.isOnline);
  expect(served.sockets).toHaveLength(1);
  expect(wire.some((entry) => entry.frame?.["type"] === "refresh_token")).toBe(true);
  for (const token of tokens) expect(JSON.stringify(wire)).not.toContain(token);
});

test("a frame that came too late is sent again after the refresh", async () => {
  const late = jwt({ sub: "ann", iat: now() - 100, exp: now() + 1000 });
  const fresh = jwt({ sub: "ann", iat: now(), exp: now() + 2000 });
  let refreshed = false;
  const served = await serve((frame, { tell, info }) => {
    if (frame["type"] === "refresh_token") {
      refreshed = true;
      tell({ type: "session_info", limits: {}, ...info });
    } else if (refreshed) tell({ type: "queued", client_msg_id: frame["client_msg_id"], position: 1, seq: 1 });
    else tell({ type: "error", error_code: "SESSION_EXPIRED", message: "", content: "", details: {}, retryable: true });
  });
  let asked = 0;
  const session = await openSession(served.url, { token: () => (asked++ < 2 ? late : fresh), timing: { tickMs: 20, repeatMs: 60_000 } });
  await session.prompt("hello").accepted;
});

test("an expired token without a successor ends the session", async () => {
  const served = await serve((_, { tell }) => {
    tell({ type: "error", error_code: "SESSION_EXPIRED", message: "", content: "", details: {}, retryable: true });
  });
  const session = await openSession(served.url, { token: jwt({ sub: "ann", iat: now() - 100, exp: now() - 1 }) });
  await expect(session.prompt("hello").ended).rejects.toMatchObject({ kind: "unauthorized" });
});

test.each(["a b", "a\nb", "a,b", "tök"])("what is no token (%j) is not told to anybody", async (token) => {
  const failed = newSession((await serve()).url, { token }).open();
  await expect(failed).rejects.toMatchObject({ kind: "unauthorized" });
  await expect(failed).rejects.not.toThrow(token);
});

test.each([
  ["ws://ide.example.com", undefined],
  ["wss://ide.example.com", "http://api.example.com"],
])("a token is not sent where others can read it: %s, %s", async (url, restUrl) => {
  const token = jwt({ sub: "ann" });
  const session = newSession(url, { token, ...(restUrl && { restUrl }) });
  await expect(session.open()).rejects.toMatchObject({ kind: "invalid_address" });
  await expect(session.rest.sessions()).rejects.toMatchObject({ kind: "invalid_address" });
});

test("a token's source that is out of reach for a while ends nothing", async () => {
  const served = await serve();
  const tokens: (() => string)[] = [
    () => jwt({ sub: "ann", exp: now() + 1000, n: 0 }), // for the journal
    () => jwt({ sub: "ann", exp: now() + 1000, n: 1 }), // for the first connection
    () => {
      throw new TypeError("fetch failed");
    },
  ];
  const session = await openSession(served.url, { token: () => (tokens.shift() ?? (() => jwt({ sub: "ann" })))() });
  const why: string[] = [];
  session.on("offline", (event) => why.push(event.why));
  session.wire.cut();
  await eventually(() => served.sockets.length === 2 && session.isOnline);
  expect(why).toEqual(["the connection was cut", "there is no token: fetch failed"]);
});

test("a session that is closed before it has its token does not connect", async () => {
  const served = await serve();
  let give: (token: string) => void = () => {};
  let asked = 0;
  const token = () => {
    asked++;
    return asked === 1 ? "" : new Promise<string>((resolve) => (give = resolve)); // the first one names the journal
  };
  const session = newSession(served.url, { token });
  const opening = session.open();
  await eventually(() => asked === 2);
  await session.close();
  give("");
  await expect(opening).rejects.toThrow("closed");
  await openSession(served.url); // had the first one connected, it would have been before
  expect(served.sockets).toHaveLength(1);
});
