/** A client that `codelab judge` drives: `node judged_client.cjs URL`. Its stdin has messages, and `y`, `n` or `e` for a call. */

import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import WebSocket from "ws";

import { connect, memoryJournal } from "../src/node.ts";

const [url = ""] = process.argv.slice(2);
const answers = {
  y: { decision: "approve" },
  n: { decision: "reject" },
  e: { decision: "edit", arguments: { path: "edited.txt", content: "other\n" } },
} as const;

const session = await connect({
  url: new URL(url).origin,
  sessionId: "judge",
  WebSocket,
  journal: memoryJournal(),
  timing: { pauseMs: 250, longestPauseMs: 1_500 },
  tools: {
    read_file: async ({ path }) => ({ content: await readFile(path, "utf8") }),
    write_file: async ({ path, content }) => {
      await writeFile(path, content);
      return { success: true };
    },
  },
});
session.on("assistant_message", ({ token }) => process.stdout.write(token));
session.on("ended", () => process.exit());
for await (const line of createInterface({ input: process.stdin })) {
  const [callId = ""] = session.openCalls.keys();
  if (line in answers) session.answer(callId, answers[line as keyof typeof answers]).catch(() => {});
  else session.prompt(line).accepted.catch(() => {});
}
