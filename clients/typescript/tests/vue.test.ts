// @vitest-environment happy-dom
/** useCodelab in a component of Vue. */

import { afterEach, expect, test } from "vitest";
import { createApp, h, ref } from "vue";
import WebSocket from "ws";

import { memoryJournal } from "../src/index.ts";
import { useCodelab } from "../src/vue.ts";
import { emptyPage, serve, stopAll } from "./server.ts";

afterEach(stopAll);

test("a component shows what is said, goes to another session, and closes", async () => {
  const served = await serve();
  const sessionId = ref<string>();
  const app = createApp({
    setup() {
      const { state, conversation } = useCodelab(() => ({ url: served.url, restUrl: served.url.replace("ws", "http"), sessionId: sessionId.value, WebSocket, fetch: noHistory, journal: memoryJournal() }));
      return () => {
        const texts = state.value.messages.flatMap((message) => (message.role === "user" ? [] : message.parts.map((part) => (part.type === "text" ? part.text : part.type))));
        return h("p", {}, `${conversation.value?.session.sessionId === "other" ? "other" : "new"} ${state.value.connection.state}: ${texts.join()}`);
      };
    },
  });
  app.mount(emptyPage());
  const shown = () => document.body.textContent;
  await expect.poll(shown).toBe("new online: ");
  served.tell({ type: "assistant_message", seq: 1, token: "Hello", content: "Hello", is_final: true, message_id: "m", turn_id: "t" });
  await expect.poll(shown).toBe("new online: Hello");
  sessionId.value = "other";
  await expect.poll(shown).toBe("other online: ");
  await expect.poll(() => served.sockets.map((socket) => socket.readyState)).toEqual([WebSocket.CLOSED, WebSocket.OPEN]);
  app.unmount();
  await expect.poll(() => served.sockets.every((socket) => socket.readyState === WebSocket.CLOSED)).toBe(true);
});

const noHistory = async () =>
  new Response(JSON.stringify({ error: { code: "SESSION_NOT_FOUND", message: "There is no such session" } }), { status: 404 });
