/** The client with the running system, which `make test` starts. */

import { createHash } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";

import type { Session, SessionEvent, ToolCallFrame } from "../../src/index.ts";
import { closeSessions, newSession, openSession, proxyUrl, url } from "./talking.ts";

afterEach(closeSessions);

describe.runIf(url)("with the running system", () => {
  test("an answer streams, and the turn ends", async () => {
    const session = await openSession();
    const turn = session.prompt("[[ts-hello]]");
    const seen: SessionEvent[] = [];
    for await (const event of turn) seen.push(event);
    expect(seen.at(-1)?.type).toBe("turn_end");
    expect(await turn.text()).toBe("Hello from the model.");
  });

  test("tools are executed, and calls approved, edited and rejected", async () => {
    const written: string[] = [];
    const session = await openSession({
      tools: {
        read_file: ({ path }) => ({ content: `content of ${path}` }),
        write_file: ({ path, content }) => {
          written.push(`${path}: ${content}`);
          return { success: true };
        },
      },
    });
    expect(await session.prompt("[[ts-read]]").text()).toBe("It was read.");
    const decide = session.on("tool_call", (call) => {
      const edited = { path: "b.txt", content: "edited" };
      if (call.requires_approval) session.answer(call.call_id, { decision: "edit", arguments: edited });
    });
    expect(await session.prompt("[[ts-write]]").text()).toBe("It was written.");
    decide();
    session.on("tool_call", (call) => session.answer(call.call_id, { decision: "reject", feedback: "not now" }));
    expect(await session.prompt("[[ts-write]]").text()).toBe("It was written.");
    expect(written).toEqual(["b.txt: edited"]);
    const history = await session.rest.history(session.sessionId);
    expect(history.messages.map((message) => message.content).join()).toContain("not now");
  });

  test("the text is whole however often the connection breaks", async () => {
    const session = await openSession({ url: proxyUrl });
    const turn = session.prompt("[[ts-long]]");
    const seqs: number[] = [];
    let text = "";
    let cuts = 0;
    let next = 0;
    for await (const event of turn) {
      if ("seq" in event && event.seq) seqs.push(event.seq);
      if (event.type !== "assistant_message") continue;
      text += event.token;
      if (seqs.length < next || cuts === 3) continue;
      cuts++;
      next = seqs.length + 2;
      session.wire.cut();
    }
    expect(cuts).toBeGreaterThan(0); // a busy machine may get the rest of the text at once
    expect(seqs).toEqual(seqs.map((_, n) => (seqs[0] as number) + n));
    const end = await turn.ended;
    expect(createHash("sha256").update(text).digest("hex")).toBe(end?.final_text_sha256);
  });

  test("large frames travel by reference in both directions", async () => {
    const large = "ü".repeat(200_000);
    const session = await openSession({
      tools: { read_file: () => ({ content: large }), write_file: () => ({ success: true }) },
    });
    expect(await session.addFile("large.txt", large.slice(0, 100_000))).toMatchObject({ files: 1 });
    expect(await session.prompt("[[ts-read]]").text()).toBe("It was read.");
    let call: ToolCallFrame | undefined;
    session.on("tool_call", (asked) => {
      call = asked;
      if (asked.requires_approval) session.answer(asked.call_id, { decision: "reject" });
    });
    await session.prompt("[[ts-large]]").ended;
    expect(call?.payload_url).toBeDefined();
    expect((call?.arguments as { content: string }).content).toHaveLength(150_000);
  });

  test("a replay and an early replacement of the connection show nothing twice", async () => {
    const session = await openSession({ timing: { lifetimeMs: 300, tickMs: 50, pauseMs: 20 } });
    const seen: SessionEvent[] = [];
    const fates: (string | undefined)[] = [];
    session.on("*", (event) => seen.push(event));
    session.wire.on((entry) => fates.push(entry.fate));
    await session.prompt("[[ts-hello]]").ended;
    session.wire.replay(0);
    await new Promise<void>((resolve) => {
      const stop = session.on("online", () => (stop(), resolve()));
    });
    expect(await session.prompt("[[ts-hello]]").text()).toBe("Hello from the model.");
    expect(fates).toContain("repeat");
    expect(seen.filter((event) => event.type === "offline")).toEqual([]);
    const seqs = seen.flatMap((event) => ("seq" in event && event.seq ? [event.seq] : []));
    expect(seqs).toEqual(seqs.map((_, n) => n + 1));
  });

  test("a second window follows, decides, and executes nothing", async () => {
    const executed: string[] = [];
    const tools = (window: string) => ({
      tools: { write_file: () => (executed.push(window), { success: true }) },
    });
    const first = await openSession({ ...tools("first"), decidedElsewhere: true });
    const { sessionId } = first;
    const second = await openSession({ sessionId, ...tools("second"), viewer: true });
    second.on("tool_call", (call) => call.requires_approval && second.answer(call.call_id, { decision: "approve" }));
    const events = second.events();
    expect(await first.prompt("[[ts-write]]").text()).toBe("It was written.");
    for await (const event of events) if (event.type === "turn_end") break;
    expect(executed).toEqual(["first"]);
  });

  test("a window that opens later is asked, too", async () => {
    const first = await openSession({ tools: { write_file: () => ({ success: true }) }, decidedElsewhere: true });
    const { sessionId } = first;
    const turn = first.prompt("[[ts-write]]");
    const asked = new Promise((resolve) => first.on("tool_call", resolve));
    await asked;
    const { last_seq: lastSeq } = await first.rest.history(sessionId);
    const second = newSession({ sessionId, viewer: true, lastSeq });
    const calls: ToolCallFrame[] = [];
    second.on("tool_call", (call) => calls.push(call));
    await second.open();
    expect(calls).toMatchObject([{ tool_name: "write_file", requires_approval: true, arguments: { path: "a.txt" } }]);
    second.answer(calls[0]?.call_id ?? "", { decision: "approve" });
    expect(await turn.text()).toBe("It was written.");
  });

  test("a message waits for the running turn, and a turn is cancelled", async () => {
    const session = await openSession();
    const running = session.prompt("[[ts-slow]]");
    await running.accepted;
    const waiting = session.prompt("[[ts-hello]]");
    await waiting.accepted;
    session.cancel();
    expect((await running.ended)?.reason).toBe("cancelled");
    expect((await waiting.ended)?.reason).toBe("completed");
    expect(await waiting.text()).toBe("Hello from the model.");
  });

  test("a message is withdrawn, and another is stopped before it arrives", async () => {
    const session = await openSession();
    const running = session.prompt("[[ts-slow]]");
    await running.accepted;
    const waiting = session.prompt("[[ts-hello]]");
    await waiting.accepted;
    expect(await session.withdraw(waiting.id)).toMatchObject({ outcome: "withdrawn" });
    expect(await waiting.ended).toBeUndefined();
    expect(await session.cancel()).toMatchObject({ outcome: "cancelling" });
    await running.ended;
    const stopped = session.prompt("[[ts-slow]]");
    expect(await session.cancel({ message: stopped.id })).toBeDefined();
    expect((await stopped.ended)?.reason).toBeOneOf([undefined, "cancelled"]);
    expect(await session.cancel()).toMatchObject({ outcome: "nothing_to_cancel" });
  });

  test("a decision that the server refuses is told, and the call keeps waiting", async () => {
    const session = await openSession({ tools: { write_file: () => ({ success: true }) } });
    const turn = session.prompt("[[ts-write]]");
    const { call_id: callId } = await new Promise<ToolCallFrame>((resolve) => session.on("tool_call", resolve));
    const wrong = session.answer(callId, { decision: "edit", arguments: { path: 1 } });
    await expect(wrong).rejects.toMatchObject({ kind: "refused", code: "INVALID_ARGUMENTS" });
    expect(session.openCalls.has(callId)).toBe(true);
    expect(await session.answer(callId, { decision: "approve" })).toMatchObject({ outcome: "accepted", call_id: callId });
    expect(await turn.text()).toBe("It was written.");
  });

  test("an agent calls a tool of the client's own", async () => {
    const session = await openSession({
      ownTools: [
        {
          name: "lookup",
          description: "Look up a word.",
          parameters: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
          read_only: true,
          execute: ({ word }) => ({ meaning: `the meaning of ${String(word)}` }),
        },
      ],
    });
    expect(await session.prompt("[[ts-own]]").text()).toBe("It was looked up.");
  });

  test("settings, agents, files and sessions", async () => {
    const session = await openSession();
    expect(await session.configure({ title: "A title", mode: "manual" })).toMatchObject({ title: "A title", mode: "manual" });
    expect(await session.switchAgent("architect")).toMatchObject({ outcome: "switched" });
    expect(await session.switchAgent("architect")).toMatchObject({ outcome: "unchanged" });
    expect(await session.rules()).toEqual([]);
    await session.addFile("a.txt", "a");
    expect(await session.clearFiles()).toMatchObject({ files: 0 });
    await expect(session.configure({ model: "unknown" })).rejects.toMatchObject({ kind: "refused" });
    const { sessions } = await session.rest.sessions();
    expect(sessions.find((one) => one.session_id === session.sessionId)).toMatchObject({ title: "A title" });
    const fork = await session.rest.fork(session.sessionId);
    await session.rest.delete(fork.session_id);
    await expect(session.rest.history("no-such-session")).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
  });

  test("a session that is deleted ends", async () => {
    const session = await openSession();
    const ended = new Promise((resolve) => session.on("ended", resolve));
    await session.rest.delete(session.sessionId);
    expect(await ended).toMatchObject({ error: { kind: "closed" } });
  });

  test("where nothing answers, opening fails", async () => {
    const session: Session = newSession({ url: "ws://127.0.0.1:9" });
    await expect(session.open()).rejects.toMatchObject({ kind: "unreachable" });
  });
});
