import { createHash } from "node:crypto";
import { afterEach, expect, test } from "vitest";

import type { SessionEvent } from "../../src/index.ts";
import { closeSessions, openSession, proxyUrl, url } from "./talking.ts";

afterEach(closeSessions);



// These need a running system, which `make test` starts.
const live = test.runIf(url);

live("an answer streams, and the turn ends", async () => {
  const session = await openSession();
  const turn = session.prompt("[[ts-hello]]");
  const seen: SessionEvent[] = [];
  for await (const event of turn) seen.push(event);
  expect(seen.at(-1)?.type).toBe("turn_end");
  expect(await turn.text()).toBe("Hello from the model.");
});

live("a tool is executed, and a call is approved", async () => {
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
  session.on("tool_call", (call) => {
    if (call.requires_approval) session.answer(call.call_id, { decision: "edit", arguments: { path: "b.txt", content: "edited" } });
  });
  expect(await session.prompt("[[ts-write]]").text()).toBe("It was written.");
  expect(written).toEqual(["b.txt: edited"]);
});

live("the text is whole however often the connection breaks", async () => {
  const session = await openSession({ url: proxyUrl });
  const turn = session.prompt("[[ts-long]]");
  const seqs: number[] = [];
  let text = "";
  let cuts = 3;
  for await (const event of turn) {
    if ("seq" in event && event.seq) seqs.push(event.seq);
    if (event.type === "assistant_message") text += event.token;
    if (event.type === "assistant_message" && seqs.length % 2 === 0 && cuts-- > 0) session.wire.cut();
  }
  expect(cuts).toBeLessThanOrEqual(0);
  expect(seqs).toEqual(seqs.map((_, n) => (seqs[0] as number) + n));
  const end = await turn.ended;
  expect(createHash("sha256").update(text).digest("hex")).toBe(end?.final_text_sha256);
});
