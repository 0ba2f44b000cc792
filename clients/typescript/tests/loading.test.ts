/** Parts are loaded when they are needed: what executes calls by a session with tools, the journal beside a new connection. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { memoryJournal, type Journal } from "../src/index.ts";
import { eventually, newSession, openSession, serve, stopAll, stopServers } from "./server.ts";

const loading = vi.hoisted(() => ({ count: 0, fails: false }));

vi.mock("../src/executing.ts", async (original) => {
  const { Decisions, ...others } = await original<typeof import("../src/executing.ts")>();
  class Counted extends Decisions {
    constructor(...given: ConstructorParameters<typeof Decisions>) {
      if (loading.fails) throw new TypeError("Failed to fetch dynamically imported module");
      super(...given);
      loading.count++;
    }
  }
  return { ...others, Decisions: Counted };
});

vi.mock("../src/refusal.ts", async (original) => {
  const { refusal } = await original<typeof import("../src/refusal.ts")>();
  if (loading.fails) throw new TypeError("Failed to fetch dynamically imported module");
  return { refusal };
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

test("if what tells why a connection is refused is out of reach, only a session that was never online ends", async () => {
  loading.fails = true;
  const served = await serve();
  const offline: string[] = [];
  await openSession(served.url, { onEvent: (event) => event.type === "offline" && offline.push(event.why) });
  stopServers();
  await eventually(() => offline.length > 3);
  expect(offline.at(-1)).toContain("out of reach");
  const opening = newSession(served.url).open();
  await expect(opening).rejects.toMatchObject({ kind: "unreachable", message: expect.stringContaining("could not be loaded") });
});

/** A journal that is opened when the test says so. */
function heldJournal() {
  let open!: () => void;
  let fail!: (error: Error) => void;
  const held = new Promise<void>((resolve, reject) => ([open, fail] = [resolve, reject]));
  const closed: Journal[] = [];
  const openJournal = async (scope: string): Promise<Journal> => {
    await held;
    const journal = await memoryJournal()(scope);
    const close = journal.close.bind(journal);
    journal.close = async () => void (closed.push(journal), await close());
    return journal;
  };
  return { openJournal, open, fail, closed };
}

test("a new conversation connects while its journal opens, and keeps what is decided meanwhile", async () => {
  const served = await serve((frame, { tell }) => tell({ type: "ack", outcome: "decided", request_id: frame["request_id"] }));
  const { openJournal, open } = heldJournal();
  const session = newSession(served.url, { sessionId: undefined, journal: openJournal });
  let isOpen = false;
  const opening = session.open().then(() => (isOpen = true));
  await eventually(() => session.isOnline);
  served.tell({ ...CALL, requires_approval: true });
  await eventually(() => session.openCalls.size > 0);
  const answering = session.answer("c", { decision: "approve" });
  served.tell({ type: "turn_end", turn_id: "t", reason: "complete", usage: {}, seq: 2 });
  await eventually(() => session.lastSeq === 2);
  expect(isOpen).toBe(false);
  expect(served.frames.some((frame) => frame["type"] === "hitl_decision")).toBe(false);
  open();
  await Promise.all([opening, answering]);
  expect(served.frames.filter((frame) => frame["type"] === "hitl_decision")).toHaveLength(1);
});

test("a conversation of an earlier page waits for its journal, which says where it goes on", async () => {
  const served = await serve();
  const { openJournal, open } = heldJournal();
  const opening = newSession(served.url, {
    journal: async (scope) => {
      const journal = await openJournal(scope);
      await journal.setPosition(7);
      return journal;
    },
  }).open();
  await openSession(served.url, { sessionId: "another" });
  expect(served.sockets).toHaveLength(1);
  open();
  await opening;
  expect(served.frames.filter((frame) => frame["type"] === "resume").at(-1)).toMatchObject({ last_seq: 7 });
});

test.each(["s", undefined])("a journal that cannot be opened ends the session (%s)", async (sessionId) => {
  const served = await serve();
  const { openJournal, fail } = heldJournal();
  const session = newSession(served.url, { sessionId, journal: openJournal });
  const opening = session.open();
  fail(new Error("full"));
  await expect(opening).rejects.toThrow("full");
  await expect(session.prompt("Hello!").ended).rejects.toThrow("full");
});

test("a session that is closed while its journal opens closes that too", async () => {
  const served = await serve();
  const { openJournal, open, closed } = heldJournal();
  const session = newSession(served.url, { sessionId: undefined, journal: openJournal });
  const opening = session.open();
  await eventually(() => session.isOnline);
  const closing = session.close();
  open();
  await expect(opening).rejects.toMatchObject({ kind: "closed" });
  await closing;
  expect(closed).toHaveLength(1);
});
