import { afterEach, expect, test, vi } from "vitest";

import { openSession, type Served, serve, stopAll } from "./server.ts";

afterEach(stopAll);

const NEVER = 3_600_000;
const waiting = { timeout: 10_000, interval: 10 };

function pings(served: Served): number {
  return served.frames.filter((frame) => frame["type"] === "ping").length;
}

async function answering(status: string): Promise<Served> {
  const served = await serve((frame, { tell }) => {
    if (frame["type"] === "ping") tell({ type: "pong" });
  });
  served.info["status"] = status;
  return served;
}

test("an idle session pings as seldom as the gateway lets it, a busy one more often", async () => {
  const [idle, busy] = [await answering("idle"), await answering("thinking")];
  const timing = { tickMs: 5, pingMs: 30, idlePingMs: NEVER };
  await openSession(idle.url, { timing });
  await openSession(busy.url, { timing });
  await vi.waitFor(() => expect(pings(busy)).toBeGreaterThan(3), waiting);
  expect(pings(idle)).toBe(0);
});

test("an idle session pings before the gateway closes it", async () => {
  const served = await answering("idle");
  await openSession(served.url, { timing: { tickMs: 5, pingMs: NEVER, idlePingMs: 30 } });
  await vi.waitFor(() => expect(pings(served)).toBeGreaterThan(3), waiting);
  expect(served.sockets).toHaveLength(1);
});

test("a ping without an answer ends the connection, and another one follows", async () => {
  const served = await serve();
  await openSession(served.url, { timing: { tickMs: 5, idlePingMs: 30, openMs: 60, pauseMs: 10 } });
  await vi.waitFor(() => expect(served.sockets.length).toBeGreaterThan(1), waiting);
});
