/**
 * A client that executes calls until it is killed: `node working_client.cjs URL SESSION STATE LOG`. It writes a line to
 * LOG before and after each execution.
 */

import { openSync, writeSync } from "node:fs";
import WebSocket from "ws";

import { connect, fileJournal } from "../src/node.ts";

const [url = "", sessionId = "", state = "", log = ""] = process.argv.slice(2);
const file = openSync(log, "a");

async function work(): Promise<void> {
  const session = await connect({
    url,
    sessionId,
    WebSocket,
    journal: fileJournal(state),
    timing: { openMs: 5_000, repeatMs: 2_000, tickMs: 50, pauseMs: 20, longestPauseMs: 300 },
    tools: {
      read_file: async ({ path }, { callId }) => {
        writeSync(file, `begin ${callId}\n`);
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
        writeSync(file, `end ${callId}\n`);
        return { content: `content of ${path}` };
      },
    },
  });
  for await (const event of session.events()) if (event.type === "ended") return;
}

work().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
