/** What a view shows of the running system: a conversation that is approved, reloaded, and answered anew. */

import { afterEach, describe, expect, test } from "vitest";
import WebSocket from "ws";

import { createConversation, memoryJournal, type Conversation, type SessionOptions } from "../../src/index.ts";
import { url } from "./talking.ts";

const opened: Conversation[] = [];
afterEach(() => Promise.all(opened.splice(0).map((conversation) => conversation.close())));

async function open(options: Partial<SessionOptions> = {}): Promise<Conversation> {
  const conversation = createConversation({ url, WebSocket, journal: memoryJournal(), ...options });
  opened.push(conversation);
  return conversation.open();
}

function shown({ state }: Conversation): string[] {
  return state.messages.flatMap((message) => {
    if (message.role === "user") return [message.text];
    return message.parts.map((part) => (part.type === "text" ? part.text : part.type === "call" ? `${part.call.tool_name} ${part.state}` : part.type));
  });
}

describe.runIf(url)("a conversation of the running system", () => {
  const tools: SessionOptions["tools"] = { write_file: () => ({ success: true }), read_file: () => ({ content: "text" }) };
  const written = ["[[ts-write]]", "write_file completed", "It was written."];

  test("shows what happens, the same after a reload, and goes on in a fork after an edit", async () => {
    const conversation = await open({ tools });
    let told = 0;
    conversation.subscribe(() => told++);
    conversation.prompt("[[ts-write]]");
    await expect.poll(() => conversation.state.approvals.length).toBe(1);
    const [asked] = conversation.state.approvals;
    await conversation.answer(asked?.id ?? "", { decision: "approve" });
    await expect.poll(() => conversation.state.turns[0]?.end?.reason).toBe("completed");
    expect(shown(conversation)).toEqual(written);
    expect(told).toBeGreaterThan(2);
    const { sessionId } = conversation.session;

    const reloaded = await open({ tools, sessionId });
    expect(shown(reloaded)).toEqual(written);
    expect(reloaded.state.usage.tokens).toBe(conversation.state.usage.tokens);
    expect(reloaded.state.title).not.toBe("");

    await conversation.edit(conversation.state.messages[0]?.id ?? "", "[[ts-read]]");
    expect(conversation.session.sessionId).not.toBe(sessionId);
    await expect.poll(() => shown(conversation).at(-1)).toBe("It was read.");
    expect(shown(conversation)[0]).toBe("[[ts-read]]");
    await conversation.regenerate();
    await expect.poll(() => shown(conversation).at(-1)).toBe("It was read.");
    expect(shown(conversation)).toEqual(["[[ts-read]]", "Reading.", "read_file completed", "It was read."]);
    expect(shown(reloaded)).toEqual(written);
  });

  test("says what ended it", async () => {
    const conversation = createConversation({ url: "ws://127.0.0.1:9", WebSocket, journal: memoryJournal() });
    await expect(conversation.open()).rejects.toThrow("Nothing answers");
    expect(conversation.state.connection).toMatchObject({ state: "ended", error: { kind: "unreachable" } });
  });
});
