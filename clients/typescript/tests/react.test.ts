// @vitest-environment happy-dom
/** useCodelab in a component of React. */

import { createElement, StrictMode } from "react";
// @ts-expect-error its types are a package of their own
import { createRoot } from "react-dom/client";
import { afterEach, expect, test } from "vitest";
import WebSocket from "ws";

import { memoryJournal, type Conversation } from "../src/index.ts";
import { useCodelab } from "../src/react.ts";
import { emptyPage, serve, stopAll } from "./server.ts";

afterEach(stopAll);

const token = (text: string, seq: number) =>
  ({ type: "assistant_message", seq, token: text, content: text, is_final: false, message_id: "m", turn_id: "t" });

test("a component shows what is said, executes calls with its newest tools, and closes", async () => {
  const served = await serve();
  let conversation: Conversation | undefined;
  const View = ({ word }: { word: string }) => {
    const found = useCodelab({
      url: served.url,
      WebSocket,
      journal: memoryJournal(),
      tools: { read_file: () => ({ content: word }) },
      decidedElsewhere: true,
    });
    conversation = found.conversation;
    const texts = found.state.messages.flatMap((message) => (message.role === "user" ? [message.text, message.state] : message.parts.map((part) => (part.type === "text" ? part.text : part.type))));
    return createElement("p", {}, `${word} ${found.state.connection.state}: ${texts.join(" ")}`);
  };
  const root = createRoot(emptyPage());
  const render = (word: string) => root.render(createElement(StrictMode, {}, createElement(View, { word })));
  const shown = () => document.body.textContent;
  render("old");
  await expect.poll(shown).toBe("old online: ");
  conversation?.prompt("go");
  await expect.poll(shown).toBe("old online: go sending");
  served.tell({ type: "user_message", seq: 1, client_msg_id: conversation?.state.messages[0]?.id, turn_id: "t", role: "user", content: "go" });
  served.tell(token("Hel", 2));
  served.tell(token("lo", 3));
  await expect.poll(shown).toBe("old online: go sent Hello");
  render("new");
  await expect.poll(shown).toBe("new online: go sent Hello");
  served.tell({ type: "tool_call", seq: 4, call_id: "c", tool_name: "read_file", arguments: { path: "a" }, requires_approval: false, turn_id: "t", risk: "read" });
  await expect.poll(() => served.frames.find((frame) => frame["type"] === "tool_result")?.["result"]).toEqual({ content: "new" });
  root.unmount();
  await expect.poll(() => served.sockets.every((socket) => socket.readyState === WebSocket.CLOSED)).toBe(true);
  expect(served.sockets.length).toBeLessThanOrEqual(2); // StrictMode mounts twice
});
