/** What executes calls is loaded by a session with tools, and by others only when they need it. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { eventually, newSession, openSession, serve, stopAll } from "./server.ts";

const loading = vi.hoisted(() => ({ count: 0, fails: false }));

vi.mock("../src/executing.ts", async (original) => {
  const { Calls, Decisions } = await original<typeof import("../src/executing.ts")>();
  class Counted extends Decisions {
    constructor(...given: ConstructorParameters<typeof Decisions>) {
      if (loading.fails) throw new TypeError("Failed to fetch dynamically imported module");
      super(...given);
      loading.count++;
    }
  }
  return { Calls, Decisions: Counted };
});

const CALL = { type: "tool_call", call_id: "c", tool_name: "write_file", arguments: { path: "a", content: "" }, seq: 1 };

beforeEach(() => Object.assign(loading, { count: 0, fails: false }));
afterEach(stopAll);

test("with tools, it is there before the session is online", async () => {
  const served = await serve();
  await openSession(served.url, { tools: { read_file: () => ({ content: "" }) } });
  expect(loading.count).toBe(1);
});

test.each([{}, { viewer: true }])("a conversation without tools loads it when its user decides (%j)", async (options) => {
  const served = await serve((frame, { tell }) => tell({ type: "ack", outcome: "decided", request_id: frame["request_id"] }));
  const session = await openSession(served.url, options);
  served.tell({ ...CALL, requires_approval: true });
  await eventually(() => session.openCalls.size > 0);
  expect(loading.count).toBe(0);
  await session.answer("c", { decision: "approve" });
  await session.answer("c", { decision: "approve" });
  expect(loading.count).toBe(1);
});

test("a call for a client without tools is refused", async () => {
  const served = await serve();
  await openSession(served.url);
  served.tell({ ...CALL, requires_approval: false });
  await eventually(() => served.frames.some((frame) => frame["type"] === "tool_result"));
  expect(served.frames.at(-1)).toMatchObject({ call_id: "c", error: { code: "TOOL_NOT_FOUND" } });
});

test("if it is out of reach, a session with tools does not open, and a decision can be repeated", async () => {
  const served = await serve((frame, { tell }) => tell({ type: "ack", outcome: "decided", request_id: frame["request_id"] }));
  loading.fails = true;
  const opening = newSession(served.url, { tools: { read_file: () => ({ content: "" }) } }).open();
  await expect(opening).rejects.toMatchObject({ kind: "unreachable" });
  const session = await openSession(served.url);
  served.tell({ ...CALL, requires_approval: true });
  await eventually(() => session.openCalls.size > 0);
  await expect(session.answer("c", { decision: "approve" })).rejects.toMatchObject({ kind: "unreachable" });
  loading.fails = false;
  await session.answer("c", { decision: "approve" });
  expect(served.frames.filter((frame) => frame["type"] === "hitl_decision")).toHaveLength(1);
});
