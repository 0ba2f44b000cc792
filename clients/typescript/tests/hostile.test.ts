/** A server that sends nonsense: the client says so, goes on, and executes nothing twice. */

import { afterEach, expect, test, vi } from "vitest";

import { backOff } from "../src/backoff.ts";
import { Conversation, SessionError } from "../src/index.ts";
import { eventually, jwt, newSession, openSession, serve, stopAll, until } from "./server.ts";

afterEach(stopAll);

const NONSENSE = [
  "",
  "{",
  "[]",
  "null",
  '"text"',
  "[".repeat(100_000),
  '{"type": null}',
  '{"type": ["tool_call"]}',
  '{"type": "tool_call"}',
  '{"type": "tool_call", "call_id": 1, "tool_name": "read_file", "requires_approval": false, "seq": 1}',
  '{"type": "tool_call", "call_id": "c", "tool_name": "read_file", "requires_approval": "false", "seq": 1}',
  '{"type": "tool_call", "call_id": "c", "tool_name": "read_file", "arguments": [], "requires_approval": false}',
  '{"type": "assistant_message", "token": {"a": 1}, "message_id": "m", "turn_id": "t", "seq": 1}',
  '{"type": "agent_status", "status": "idle", "seq": "1"}',
  '{"type": "agent_status", "status": "idle", "seq": -1}',
  '{"type": "agent_status", "status": "idle", "seq": true}',
  '{"type": "agent_status", "status": "idle", "seq": 1e300}',
  '{"type": "agent_status", "status": "idle", "seq": 99999999999999999999999999}',
  '{"type": "resumed", "last_seq": 0, "open_calls": [1]}',
  '{"type": "plan", "items": "none", "seq": 1}',
  '{"type": "upload_ticket", "payload_ref": "r", "url": 1, "headers": {}}',
  '{"type": "session_info", "session_id": 1}',
  '{"type": "ended"}',
  '{"type": "call_started", "callId": "c"}',
  '{"type": "*"}',
];

/** What only the client itself tells. */
const LOCAL = [
  { type: "diffed", diff: [{ path: "a", before: null, after: "harmless" }] },
  { type: "decided", answer: { decision: "approve" } },
  { type: "decision_accepted", answer: { decision: "reject" } },
  { type: "prompted", id: "m", text: "I agree" },
  { type: "told", part: { type: "text", id: "x", text: "nobody said this" } },
  { type: "failed" },
  { type: "titled", title: "theirs" },
];

test("malformed frames are ignored, each with a reason", async () => {
  const read = vi.fn();
  const served = await serve();
  const session = await openSession(served.url, { tools: { read_file: read } });
  const events = session.events();
  for (const text of NONSENSE) served.tell(text);
  served.tell({ type: "queued", client_msg_id: "other", position: 1, seq: 1 });
  const seen = await until(events, (event) => event.type === "queued");
  expect(seen.filter((event) => event.type === "ignored")).toHaveLength(NONSENSE.length);
  expect(seen.some((event) => event.type === "ended" || event.type === "call_started")).toBe(false);
  expect(read).not.toHaveBeenCalled();
});

test("no frame says what is the client's to say, such as what a call would change", async () => {
  const served = await serve();
  const conversation = new Conversation(() => newSession(served.url));
  await conversation.open();
  const call = { type: "tool_call", call_id: "c", tool_name: "write_file", arguments: { path: "a", content: "evil" }, turn_id: "t" };
  served.tell({ ...call, requires_approval: true, seq: 1 });
  for (const frame of LOCAL) served.tell({ callId: "c", turnId: "t", message: "", ...frame });
  served.tell({ type: "queued", client_msg_id: "other", position: 1, seq: 2 });
  await eventually(() => conversation.state.queue.length > 0);
  const [part] = conversation.state.approvals;
  expect(part).toEqual({ type: "call", id: "c", call: expect.anything(), state: "asking", output: "" });
  expect(conversation.state.messages).toHaveLength(1);
  expect(conversation.state.title).toBe("");
});

test("a frame of a later version is shown and keeps its place", async () => {
  const served = await serve();
  const session = await openSession(served.url);
  served.tell('{"type": "of_the_future", "seq": 1, "x": 1, "__proto__": {"polluted": true}}');
  served.tell({ type: "queued", client_msg_id: "other", position: 1, seq: 2 });
  const seen = await until(session.events(), (event) => event.type === "queued");
  expect(seen.map((event) => event.type as string)).toContain("of_the_future");
  expect(({} as any).polluted).toBeUndefined();
});

test("frames in any order and twice are shown once, in order", async () => {
  const served = await serve();
  const session = await openSession(served.url);
  for (const seq of [3, 1, 1, 5, 2, 4, 3, 5, 6]) {
    served.tell({ type: "assistant_message", token: `${seq}`, is_final: false, message_id: "m", turn_id: "t", seq });
  }
  served.tell({ type: "queued", client_msg_id: "other", position: 1, seq: 7 });
  const seen = await until(session.events(), (event) => event.type === "queued");
  expect(seen.map((event) => (event.type === "assistant_message" ? event.token : "")).join("")).toBe("123456");
});

test("a gap is asked for", async () => {
  const served = await serve();
  await openSession(served.url);
  served.tell({ type: "agent_status", status: "thinking", message: "", seq: 2 });
  await eventually(() => served.frames.filter((frame) => frame["type"] === "resume").length > 1);
});

test("a repeated call is executed once and answered each time", async () => {
  const read = vi.fn(() => ({ content: "x" }));
  const served = await serve();
  await openSession(served.url, { tools: { read_file: read } });
  for (let n = 1; n <= 3; n++) {
    served.tell({ type: "tool_call", call_id: "c1", tool_name: "read_file", arguments: {}, requires_approval: false, seq: 1 });
    await eventually(() => served.frames.filter((frame) => frame["type"] === "tool_result").length >= n);
  }
  expect(read).toHaveBeenCalledTimes(1);
  const results = served.frames.filter((frame) => frame["type"] === "tool_result");
  expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1);
});

test("a replayed call that is settled is neither shown nor executed", async () => {
  const read = vi.fn(() => ({ content: "x" }));
  const served = await serve();
  const session = await openSession(served.url, { tools: { read_file: read }, lastSeq: 9 });
  session.wire.replay(0);
  served.tell({ type: "tool_call", call_id: "old", tool_name: "read_file", arguments: {}, requires_approval: false, seq: 1 });
  served.tell({ type: "tool_call", call_id: "asked", tool_name: "write_file", arguments: {}, requires_approval: true, seq: 2 });
  served.tell({ type: "resumed", last_seq: 9, open_calls: [] });
  served.tell({ type: "queued", client_msg_id: "other", position: 1, seq: 10 });
  const seen = await until(session.events(), (event) => event.type === "queued");
  expect(seen.some((event) => event.type === "tool_call")).toBe(false);
  expect(read).not.toHaveBeenCalled();
});

test.each(["toString", "constructor", "__proto__", "hasOwnProperty"])("a tool named %s does not exist", async (name) => {
  const served = await serve();
  await openSession(served.url, { tools: { read_file: () => ({ content: "" }) } });
  served.tell({ type: "tool_call", call_id: "c", tool_name: name, arguments: {}, requires_approval: false, seq: 1 });
  await eventually(() => served.frames.some((frame) => frame["type"] === "tool_result"));
  expect(served.frames.at(-1)).toMatchObject({ error: { code: "TOOL_NOT_FOUND" } });
});

test.each(["file:///etc/passwd", "http://127.0.0.1:1/x", "gopher://x", "", "http://[", "javascript:alert(1)"])(
  "arguments at %j are an error of the call",
  async (payload_url) => {
    const read = vi.fn();
    const served = await serve();
    await openSession(served.url, { tools: { read_file: read } });
    const call = { type: "tool_call", call_id: "c", tool_name: "read_file", requires_approval: false, seq: 1 };
    served.tell({ ...call, payload_url, payload_bytes: 5 });
    await eventually(() => served.frames.some((frame) => frame["type"] === "tool_result"));
    expect(served.frames.at(-1)).toMatchObject({ error: { code: "EXECUTION_FAILED" } });
    expect(read).not.toHaveBeenCalled();
  },
);

test.each([1000, 1003])("a close with %d ends the session", async (code) => {
  const served = await serve((_, { sockets }) => sockets.at(-1)?.close(code));
  const session = await openSession(served.url);
  const turn = session.prompt("hello");
  await expect(turn.ended).rejects.toMatchObject({ kind: "closed" });
  expect(() => session.answer("c", { decision: "approve" })).toThrow(SessionError);
  expect(served.sockets).toHaveLength(1);
});

test.each([
  ["resync_required", { type: "resync_required", last_seq: 5 }],
  ["resumed, and more", { type: "resumed", last_seq: 5, open_calls: [], more: true }],
])("a server that answers each resume by %s is not stormed", async (_, answer) => {
  const served = await serve();
  served.resumed = answer;
  const opening = openSession(served.url, { timing: { pauseMs: 12, longestPauseMs: 1_500 }, viewer: true });
  opening.catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 750)); // 30 s, if pauses were of half a second to a minute
  console.log(`${answer.type}: ${served.frames.length} frames in 30 s`);
  expect(served.frames.length).toBeLessThanOrEqual(24);
});

test("a token that the server alone finds expired is not argued about", async () => {
  const error = { type: "error", message: "expired", error_code: "SESSION_EXPIRED", details: {}, retryable: false };
  const served = await serve((_, { tell }) => tell(error));
  const token = jwt({ sub: "ann", exp: Math.floor(Date.now() / 1_000) + 3_600 });
  const session = await openSession(served.url, { token: () => token, timing: { tickMs: 20, repeatMs: 10_000 } });
  session.prompt("hello").ended.catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(served.frames.filter((frame) => frame["type"] === "user_message")).toHaveLength(1);
});

test("pauses grow from half a second to a minute, and begin again after ten quiet seconds", () => {
  for (const chance of [0, 0.999]) {
    const pauseAt = backOff(500, 60_000, () => chance);
    let now = 0;
    const pauses = Array.from({ length: 9 }, () => {
      const pause = pauseAt(now);
      now += pause;
      return pause;
    });
    expect(pauses[0]).toBeGreaterThanOrEqual(500);
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
    expect(pauses.at(-1)).toBeLessThanOrEqual(60_000);
    expect(pauses.at(-1)).toBeGreaterThanOrEqual(30_000);
    expect(pauseAt(now + 9_000)).toBeGreaterThan(1_000);
    expect(pauseAt(now + 9_000 + 60_000 + 10_001)).toBeLessThanOrEqual(1_000);
  }
});

test("a listener that fails does not break the session", async () => {
  const told = vi.spyOn(console, "error").mockImplementation(() => {});
  const served = await serve((frame, { tell }) => tell({ type: "queued", client_msg_id: frame["client_msg_id"], position: 1, seq: 1 }));
  const session = await openSession(served.url, {
    onEvent: () => {
      throw new Error("a mistake in the page");
    },
  });
  await session.prompt("hello").accepted;
  await session.close();
  expect(told).toHaveBeenCalled();
  told.mockRestore();
});

test("a tool's mistake is an error of its call", async () => {
  const circular: Record<string, unknown> = {};
  circular["self"] = circular;
  const served = await serve();
  await openSession(served.url, {
    decidedElsewhere: true,
    tools: {
      read_file: () => {
        throw new TypeError("not a path");
      },
      list_files: () => circular as never,
      write_file: () => ({ success: true, message: "x".repeat(10_000_000) }),
      delete_file: (() => undefined) as never,
    },
  });
  const names = ["read_file", "list_files", "write_file", "delete_file"];
  for (const [n, tool_name] of names.entries()) {
    served.tell({ type: "tool_call", call_id: tool_name, tool_name, arguments: {}, requires_approval: false, seq: n + 1 });
  }
  const results = (): Record<string, any>[] => served.frames.filter((frame) => frame["type"] === "tool_result");
  await eventually(() => new Set(results().map((result) => result["call_id"])).size === names.length);
  const of = Object.fromEntries(results().map((result) => [result["call_id"], result]));
  expect(of["read_file"]).toMatchObject({ error: { code: "EXECUTION_FAILED", message: "not a path" } });
  expect(of["list_files"]).toMatchObject({ error: { code: "EXECUTION_FAILED" } });
  expect(of["write_file"]).toMatchObject({ error: { code: "PAYLOAD_TOO_LARGE" } });
  expect(of["delete_file"]).toMatchObject({ result: null });
});

test("what cannot be JSON, or is too large, is refused before it is sent", async () => {
  const session = await openSession((await serve()).url);
  await expect(session.request({ type: "ping", n: 1n })).rejects.toThrow();
  await expect(session.prompt("x".repeat(10_000_001)).accepted).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
});
