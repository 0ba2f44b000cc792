/** What a conversation shows after its frames: the history, live ones, replayed ones, and those that are missing. */

import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";

import { EMPTY, historyReducer, reduce, type Action, type AssistantMessage, type ConversationState, type HistoryAction, type HistoryMessage, type SessionEvent } from "../src/index.ts";

const said = (turn_id: string, role: string, content: string, more: object = {}) =>
  ({ id: `${turn_id}-${content}`, message_id: `${turn_id}-${content}`, turn_id, role, content, ...more }) as unknown as HistoryMessage;
const call = (call_id: string, more: object = {}) => ({ call_id, tool_name: "run", turn_id: "t2", ...more });
const frame = (type: string, more: object = {}) => ({ type, turn_id: "t2", ...more }) as unknown as SessionEvent;
const text = (message_id: string, token: string, more: object = {}) => frame("assistant_message", { message_id, token, is_final: true, ...more });
const history = (messages: HistoryMessage[], runningTurn?: string, more: object = {}): HistoryAction =>
  ({ type: "history", messages, lastSeq: 0, runningTurn, hasEarlier: false, ...more });
const gap = frame("resync_required", { turn_id: undefined, last_seq: 0 });
const USAGE = { prompt_tokens: 10, completion_tokens: 2, llm_calls: 1 };

const reduceHistory = await historyReducer();

/** The state after events, and pages of the history. */
function next(state: ConversationState, event: SessionEvent | Action | HistoryAction): ConversationState {
  return event.type === "history" || event.type === "earlier_history" ? reduceHistory(state, event) : reduce(state, event);
}

function after(...events: (SessionEvent | Action | HistoryAction)[]): ConversationState {
  return events.reduce(next, EMPTY);
}

function shown({ messages }: ConversationState): string[] {
  return messages.flatMap((message) => {
    if (message.role === "user") return [message.text];
    return message.parts.map((part) => {
      if (part.type === "call") return `${part.id} ${part.state}`;
      return part.type === "text" ? part.text : part.type;
    });
  });
}

const before = [said("t1", "user", "one"), said("t1", "assistant", "two")];
const sinceThen = [
  ...before,
  said("t2", "user", "three"),
  said("t2", "assistant", "four", { calls: [call("c1"), call("c2"), call("c3")] }),
  said("t2", "tool", "done", { call_id: "c1" }),
];
const asks = (id: string, more: object = {}) => frame("tool_call", { ...call(id), requires_approval: true, ...more });

test("a turn is a message of the user and one of the agent, whose parts are in order", () => {
  const state = after(
    { type: "prompted", id: "m", text: "go" },
    { type: "prompt_accepted", id: "m" },
    frame("user_message", { client_msg_id: "m", content: "go", seq: 1 }),
    frame("assistant_thought", { message_id: "a", content: "hm", seq: 2 }),
    text("a", "I ", { is_final: false, seq: 3 }),
    text("a", "read.", { seq: 4 }),
    frame("plan", { items: [{ text: "read", status: "in_progress" }], seq: 5 }),
    frame("tool_call", { ...call("c1"), requires_approval: false, seq: 6 }),
    frame("call_update", { call_id: "c1", state: "completed", result: { content: "x" }, seq: 7 }),
    frame("plan", { items: [{ text: "read", status: "completed" }], seq: 8 }),
    text("b", "Done.", { seq: 9 }),
    frame("turn_end", { reason: "completed", usage: { ...USAGE, cost_usd: 0.5 }, context_used: 9, title: "Reading", seq: 10 }),
  );
  expect(state.messages.map(({ role, turnId }) => [role, turnId])).toEqual([["user", "t2"], ["assistant", "t2"]]);
  expect(shown(state)).toEqual(["go", "thought", "I read.", "plan", "c1 completed", "Done."]);
  expect(state.messages[1]).toMatchObject({ parts: [{}, {}, { items: [{ status: "completed" }] }, { outcome: { result: { content: "x" } } }, {}] });
  expect(state.turns).toEqual([{ id: "t2", isOver: true, end: { reason: "completed", usage: { ...USAGE, cost_usd: 0.5 } } }]);
  expect(state).toMatchObject({ title: "Reading", lastSeq: 10, usage: { tokens: 12, cost: 0.5, context: 9 } });
});

test("a frame that comes again changes nothing", () => {
  const frames = [text("a", "x", { is_final: false, seq: 3 }), frame("tool_progress", { call_id: "c", result: { stdout: "y" }, seq: 5 })];
  const state = after(asks("c", { seq: 2 }), ...frames);
  for (const one of frames) expect(reduce(state, one)).toBe(state);
  expect(shown(reduce(state, asks("c", { seq: 2 })))).toEqual(shown(state));
});

describe("approvals", () => {
  test("are the calls that wait, until they are decided", () => {
    let state = after(asks("c1"), asks("c2"));
    expect(state.approvals.map(({ id }) => id)).toEqual(["c1", "c2"]);
    state = reduce(state, { type: "decided", callId: "c1", answer: { decision: "approve" } });
    expect(state.approvals[0]).toMatchObject({ isDeciding: true });
    expect(reduce(state, frame("error", { call_id: "c1", message: "no" })).approvals[0]).toMatchObject({ isDeciding: false });
    state = reduce(state, frame("tool_call", { ...call("c1"), requires_approval: false }));
    state = reduce(state, frame("call_update", { call_id: "c2", state: "rejected", decision: "reject", feedback: "why" }));
    expect(state.approvals).toEqual([]);
    expect(shown(state)).toEqual(["c1 approved", "c2 rejected"]);
  });

  test("end with a rejection that the server has, before it tells: other calls of the step may wait", () => {
    const answer = { decision: "reject", feedback: "why" } as const;
    let state = after(asks("c1"), asks("c2"), { type: "decided", callId: "c1", answer });
    expect(shown(state)).toEqual(["c1 asking", "c2 asking"]);
    state = reduce(state, { type: "decision_accepted", callId: "c1", answer });
    expect(shown(state)).toEqual(["c1 rejected", "c2 asking"]);
    expect(state.messages[0]).toMatchObject({ parts: [{ decision: "reject", feedback: "why", isDeciding: false }, {}] });
    expect(state.approvals.map(({ id }) => id)).toEqual(["c2"]);
    const approved: Action = { type: "decision_accepted", callId: "c2", answer: { decision: "approve" } };
    expect(shown(reduce(state, approved))).toEqual(["c1 rejected", "c2 asking"]);
    expect(reduce(state, { type: "decided", callId: "c1", answer: { decision: "approve" } })).toEqual(state);
  });

  test("have the arguments that were put in place of the agent's, once the call is executed so", () => {
    const answer = { decision: "edit", arguments: { steps: ["mine"] } } as const;
    const settled = (more: object) =>
      after(asks("c1", { arguments: { steps: ["its"] } }), { type: "decided", callId: "c1", answer }, frame("call_update", { call_id: "c1", ...more }));
    expect(settled({ state: "completed" }).messages).toMatchObject([{ parts: [{ call: { arguments: { steps: ["mine"] } } }] }]);
    const others = [{ state: "rejected" }, { state: "completed", decision: "approve" }];
    for (const other of others) expect(settled(other).messages).toMatchObject([{ parts: [{ call: { arguments: { steps: ["its"] } } }] }]);
  });

  test("end with their turn, and are those of the history too", () => {
    expect(after(asks("c1"), frame("turn_end", { reason: "cancelled", usage: USAGE })).approvals).toEqual([]);
    const state = after(history(before, "t2"), frame("user_message", { client_msg_id: "t2-three" }), asks("c2"), gap, history(sinceThen, "t2"));
    expect(state.approvals.map(({ id }) => id)).toEqual(["c2"]);
  });
});

describe("frames that are missing", () => {
  test("are told by the history, and the turn that was running goes on", () => {
    let state = after(history([...before, said("t2", "user", "three")], "t2"));
    expect(shown(state)).toEqual(["one", "two"]);
    state = [frame("user_message", { client_msg_id: "t2-three", content: "three" }), asks("c2"), gap].reduce(reduce, state);
    expect(state.isStale).toBe(true);
    state = next(state, history(sinceThen, "t2"));
    expect(shown(state)).toEqual(["one", "two", "three", "four", "c1 completed", "c2 asking", "c3 elsewhere"]);
    expect(state.isStale).toBe(false);
    const more = [asks("c3"), frame("call_update", { call_id: "c2", state: "rejected" }), text("m", "five")];
    expect(shown(more.reduce(reduce, state)).slice(4)).toEqual(["c1 completed", "c2 rejected", "c3 asking", "five"]);
  });

  test("of a turn that has ended are told by the history alone", () => {
    const state = after(history(before, "t2"), asks("c2"), { type: "prompted", id: "new", text: "on its way" }, gap, history(sinceThen));
    expect(shown(state)).toEqual(["one", "two", "three", "four", "c1 completed", "c2 completed", "c3 completed", "on its way"]);
    expect(shown(reduce(state, text("m", "late")))).not.toContain("late");
  });

  test("may be told twice by a history that is newer than the frames", () => {
    const state = after(
      history(before, "t2"),
      frame("user_message", { client_msg_id: "t2-three", content: "three" }),
      text("t2-four", "fo", { is_final: false }),
      gap,
      history(sinceThen, "t2"),
      text("t2-four", "ur"),
    );
    expect(shown(state)[3]).toBe("four");
  });

  test("do not hide a turn that has begun since the server was asked which one runs", () => {
    const state = after(
      { type: "prompted", id: "t2-three", text: "three" },
      frame("user_message", { client_msg_id: "t2-three", content: "three" }),
      text("m", "Half ", { is_final: false }),
      gap,
      history(before),
      text("m", "whole"),
    );
    expect(shown(state)).toEqual(["one", "two", "three", "Half whole"]);
  });

  test("of turns on earlier pages of the history are not shown at its end", () => {
    const old = [
      frame("user_message", { client_msg_id: "old", content: "old", turn_id: "t0", seq: 1 }),
      text("o", "old", { turn_id: "t0", seq: 2 }),
      asks("c0", { turn_id: "t0", seq: 3 }),
      frame("turn_end", { turn_id: "t0", reason: "completed", usage: USAGE, seq: 4 }),
    ];
    const state = after(history(before, undefined, { lastSeq: 20, hasEarlier: true }), ...old, text("n", "new", { turn_id: "t9", seq: 21 }));
    expect(shown(state)).toEqual(["one", "two", "new"]);
    expect(state.approvals).toEqual([]);
    const earlier: HistoryAction = { type: "earlier_history", messages: [said("t0", "user", "zero")], hasEarlier: false };
    expect(shown(next(state, earlier))[0]).toBe("zero");
  });
});

describe("a message that waits", () => {
  const waits = frame("queued", { turn_id: undefined, client_msg_id: "m", position: 1, preview: "later" });

  test("is in the queue until its turn, and the running turn stays one message", () => {
    let state = after(text("a", "I ", { is_final: false }), { type: "prompted", id: "m", text: "later, whole" });
    state = reduce(state, asks("c1"));
    expect(shown(state)).toEqual(["I ", "c1 asking", "later, whole"]);
    state = reduce(state, waits);
    expect(state.queue).toMatchObject([{ id: "m", text: "later, whole", isWhole: true }]);
    expect(shown(state)).toEqual(["I ", "c1 asking"]);
    state = reduce(state, frame("user_message", { client_msg_id: "m", turn_id: "t3", content: "later, whole" }));
    expect([shown(state).at(-1), state.queue]).toEqual(["later, whole", []]);
  });

  test("is withdrawn, or of another window", () => {
    expect(after(waits).queue).toMatchObject([{ text: "later", isWhole: true }]);
    expect(after(waits, frame("withdrawn", { client_msg_ids: ["m"] })).queue).toEqual([]);
  });

  test("stays where the history has it", () => {
    const state = after(history([...before, said("t2", "user", "three")]), { ...waits, client_msg_id: "t2-three" } as SessionEvent);
    expect(state.queue).toEqual([]);
    expect(shown(reduce(state, frame("user_message", { client_msg_id: "t2-three", content: "three" })))).toEqual(["one", "two", "three"]);
  });

  test("is refused, and may be sent again if the reason passes", () => {
    const refused = (code: "BUSY" | "CONTEXT_TOO_LARGE", retryAt?: number) =>
      after({ type: "prompted", id: "m", text: "x" }, { type: "prompt_refused", id: "m", message: "no", code, retryAt }).messages;
    expect(refused("BUSY", 5)).toMatchObject([{ state: "refused" }, { parts: [{ refused: "m", isPassing: true, retryAt: 5 }] }]);
    expect(refused("CONTEXT_TOO_LARGE")).toMatchObject([{}, { parts: [{ isPassing: false }] }]);
  });
});

describe("a call that is being written", () => {
  const draft = (index: number, more: object = {}) =>
    frame("tool_call_draft", { message_id: "m", index, tool_name: "write_file", path: "a.py", lines: 1, tail: "x", ...more });
  const shows = (...events: SessionEvent[]) => shown(after(...events));

  test("grows in one part, and becomes the call", () => {
    expect(after(draft(0), draft(0, { lines: 42 })).messages).toMatchObject([{ parts: [{ type: "draft", draft: { lines: 42 } }] }]);
    expect(shows(draft(0), draft(1), draft(1))).toEqual(["draft", "draft"]);
    expect(shows(draft(0), draft(1), asks("c1"))).toEqual(["c1 asking"]);
    expect(shows(draft(0), asks("c1", { turn_id: "other" }))).toEqual(["draft", "c1 asking"]);
  });

  test("is gone when it is withdrawn, replaced, late, or its answer is void", () => {
    expect(shows(draft(0), draft(1), draft(0))).toEqual(["draft"]);
    expect(shows(draft(0), draft(1), draft(0, { withdrawn: true }))).toEqual([]);
    expect(shows(draft(0), draft(0, { withdrawn: true }), draft(0))).toEqual(["draft"]);
    expect(shows(draft(0), frame("message_discarded", { message_id: "m" }), draft(0))).toEqual([]);
    expect(shows(draft(0), frame("agent_status", { status: "idle" }), draft(0))).toEqual([]);
    expect(shows(draft(0), frame("turn_end", { reason: "error", usage: USAGE }), draft(0))).toEqual([]);
    expect(shows(draft(0), draft(0, { message_id: "n" }))).toEqual(["draft"]);
    expect(shows(draft(0), { type: "offline", why: "", retryInMs: 1 })).toEqual([]);
    expect(shows(draft(0), frame("agent_status", { status: "thinking" }))).toEqual(["draft"]);
  });
});

test("a text is discarded with its thoughts, and one that was cut off too", () => {
  const thought = frame("assistant_thought", { message_id: "a", content: "hm" });
  expect(shown(after(thought, text("a", "x"), frame("message_discarded", { message_id: "a" })))).toEqual([]);
  expect(shown(after(text("a", "x", { is_final: false }), text("a", "", { aborted: true })))).toEqual([]);
});

test("the acting mode is the one that is set or, in `ask` and `plan`, the one before", () => {
  const info = (mode: string, autonomy: string) => frame("session_info", { turn_id: undefined, mode, settings: { autonomy }, last_seq: 4 });
  const switched = (to_mode: string, seq = 5) => frame("mode_switched", { turn_id: undefined, to_mode, seq });
  const modes = [[], [info("plan", "balanced")], [info("plan", "manual")], [info("autonomous", "autonomous")]].map((events) => after(...events).actingMode);
  expect(modes).toEqual(["code", "code", "manual", "autonomous"]);
  expect(after(info("code", "balanced"), switched("manual"), switched("plan", 6)).actingMode).toBe("manual");
  expect(after(info("code", "balanced"), switched("manual", 3)).actingMode).toBe("code"); // the log tells it again
});

test("what happens beside the turns stands by itself", () => {
  const over = [text("a", "x"), frame("turn_end", { reason: "completed", usage: USAGE })];
  const switched = frame("agent_switched", { turn_id: undefined, seq: 7, from_agent: "a", to_agent: "b", reason: "" });
  const roles = after(...over, switched, { type: "failed", message: "no" }).messages.map(({ role }) => role);
  expect(roles).toEqual(["assistant", "system", "system"]);
  expect(after(text("a", "x"), switched).messages.map(({ role }) => role)).toEqual(["assistant"]);
});

test("every example of a server's frame in the documents is understood, in any state, and none changes the state before", async () => {
  const document = new URL("../../../docs/schemas/frames.json", import.meta.url);
  const { $defs } = JSON.parse(await readFile(document, "utf8")) as { $defs: Record<string, { examples?: SessionEvent[] }> };
  const examples = Object.entries($defs).flatMap(([name, { examples = [] }]) => (name.endsWith("Frame") ? examples : []));
  expect(examples.length).toBeGreaterThan(40);
  const frozen = (value: unknown): void => {
    if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  };
  let state = EMPTY;
  for (const first of examples) {
    for (const second of examples) {
      state = [first, second].reduce(reduce, first === second ? EMPTY : state);
      frozen(state);
    }
  }
});

test("what a token does not change stays the same object", () => {
  const turns = Array.from({ length: 50 }, (_, n) => [
    frame("user_message", { turn_id: `t${n}`, client_msg_id: `m${n}`, content: "go" }),
    text(`a${n}`, "x", { turn_id: `t${n}` }),
  ]).flat();
  const old = after(...turns, asks("c"), text("n", "a", { is_final: false }));
  const state = reduce(old, text("n", "b", { is_final: false }));
  expect(state.messages.filter((message, n) => message !== old.messages[n])).toHaveLength(1);
  expect(state.messages.at(-1)).toMatchObject({ parts: [{}, { text: "ab" }] });
  const last = (one: ConversationState) => (one.messages.at(-1) as AssistantMessage).parts[0];
  expect(last(state)).toBe(last(old));
  for (const part of ["turns", "approvals", "queue", "usage", "plan"] as const) expect(state[part]).toBe(old[part]);
});

test("10,000 tokens at the end of a long conversation cost little", () => {
  const turns = Array.from({ length: 1_000 }, (_, n) => [
    frame("user_message", { turn_id: `t${n}`, client_msg_id: `m${n}`, content: "go", seq: 3 * n + 1 }),
    text(`a${n}`, "x", { turn_id: `t${n}`, seq: 3 * n + 2 }),
    frame("turn_end", { turn_id: `t${n}`, reason: "completed", usage: USAGE, seq: 3 * n + 3 }),
  ]).flat();
  let state = after(...turns);
  const begun = performance.now();
  for (let n = 0; n < 10_000; n++) state = reduce(state, text("long", "token ", { turn_id: "long", is_final: false, seq: 3_001 + n }));
  const took = performance.now() - begun;
  console.log(`10,000 tokens behind 1,000 turns: ${took.toFixed()} ms, ${(took / 10).toFixed(1)} µs each`);
  expect(shown(state).at(-1)).toHaveLength(60_000);
});

describe("subagents", () => {
  const works = (id: string, more: object = {}) =>
    frame("subagent_update", { call_id: id, agent: "explore", task: `Task of ${id}`, state: "running", ...more });
  const parts = ({ messages }: ConversationState) =>
    messages.flatMap((message) => (message.role === "user" ? [] : message.parts)).filter((part) => part.type === "subagent");

  test("have a part each, with their newest text and their calls", () => {
    const state = after(
      works("k1", { seq: 1 }),
      works("k2", { seq: 2 }),
      works("k1", { step: 1, text: "I read.", seq: 3 }),
      frame("tool_call", { ...call("c1", { parent_call_id: "k1" }), requires_approval: false, seq: 4 }),
      asks("c2", { parent_call_id: "k2", seq: 5 }),
      works("k1", { state: "failed", seq: 6 }),
    );
    expect(parts(state)).toEqual([
      { type: "subagent", id: "k1", state: "failed", agent: "explore", task: "Task of k1", text: "I read.", calls: ["c1"] },
      { type: "subagent", id: "k2", state: "running", agent: "explore", task: "Task of k2", text: "", calls: ["c2"] },
    ]);
    expect(state.approvals.map(({ call }) => call.parent_call_id)).toEqual(["k2"]);
    expect(reduce(state, works("k1", { seq: 3 }))).toBe(state);
  });

  test("end with their turn", () => {
    const end = (reason: string) => parts(after(works("k1"), frame("turn_end", { reason, usage: USAGE })))[0]?.state;
    expect([end("cancelled"), end("completed")]).toEqual(["cancelled", "completed"]);
  });

  test("that nobody knows are shown from what their end says", () => {
    const state = after(asks("c1", { parent_call_id: "k1" }), works("k1", { state: "cancelled" }));
    expect(parts(state)).toMatchObject([{ state: "cancelled", calls: ["c1"] }]);
  });

  test("of an earlier turn have the answer that the history tells", () => {
    const told = call("k1", { tool_name: "delegate", arguments: { agent: "explore", task: "Find x" } });
    const past = [...before, said("t2", "assistant", "", { calls: [told] }), said("t2", "tool", "In a.py.", { call_id: "k1" })];
    const [part] = parts(after(history(past), works("k1", { text: "I look." }), works("k1", { state: "failed" })));
    expect(part).toMatchObject({ agent: "explore", task: "Find x", text: "In a.py.", state: "failed" });
  });

  test("of a running turn whose frames are missing keep what is shown of them", () => {
    const told = call("k1", { tool_name: "delegate", arguments: { agent: "explore", task: "Find x" } });
    const newer = call("k2", { tool_name: "delegate", arguments: { agent: "explore", task: 1 } });
    const missing = history([...before, said("t2", "assistant", "", { calls: [told, newer] })], "t2", { isStale: true });
    const state = after(works("k1", { text: "I look." }), asks("c1", { parent_call_id: "k1" }), gap, missing, works("k2"));
    expect(parts(state)).toMatchObject([
      { id: "k1", text: "I look.", calls: ["c1"], state: "running" },
      { id: "k2", task: "", calls: [], state: "running" },
    ]);
    expect(state.approvals.map(({ id }) => id)).toEqual(["c1"]);
  });
});
