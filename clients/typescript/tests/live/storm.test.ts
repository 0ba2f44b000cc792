/** A gateway that throttles for a while: `make test` counts the frames that it gets (tests/typescript/test_storm.py). */

import { afterEach, describe, expect, test } from "vitest";

import { TIMING } from "../../src/timing.ts";
import type { SessionEvent } from "../../src/index.ts";
import { closeSessions, openSession } from "./talking.ts";

afterEach(closeSessions);

/** Addresses of throttling gateways, by the type of the first frame that each refuses. */
const gateways = JSON.parse(process.env["CODELAB_STORMS"] ?? "{}") as Record<string, string>;
/** The test's time for a millisecond of the real world. */
const unit = Number(process.env["CODELAB_STORM_UNIT"] ?? 1);

describe.runIf(Object.keys(gateways).length)("behind a throttling gateway", () => {
  test.each(Object.entries(gateways))("which begins with %s, the turn ends well", async (_, url) => {
    const executed: string[] = [];
    const seen: SessionEvent[] = [];
    const session = await openSession({
      url,
      timing: { tickMs: 20, pauseMs: TIMING.pauseMs * unit, longestPauseMs: TIMING.longestPauseMs * unit },
      tools: {
        read_file: ({ path }) => {
          executed.push("read");
          return { content: `content of ${path}` };
        },
        write_file: () => {
          executed.push("write");
          return { success: true };
        },
      },
      onEvent: (event) => {
        seen.push(event);
        if (event.type === "tool_call" && event.requires_approval) {
          void session.answer(event.call_id, { decision: "approve" }).catch(() => {});
        }
      },
    });
    const end = await session.prompt("[[ts-storm]]").ended;
    expect(end?.reason).toBe("completed");
    expect(executed).toEqual(["read", "write"]);
    const pauses = seen.flatMap((event) => (event.type === "busy" ? [event.retryInMs / unit / 1_000] : []));
    console.log(`pauses of ${pauses.map((pause) => pause.toFixed(1)).join(", ")} s`);
    expect(pauses).not.toEqual([]);
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
    expect(seen.at(-1)?.type).not.toBe("ended");
  });
});
