import type { Timing } from "./options.ts";

/** How long a session waits, unless it is told otherwise. */
export const TIMING: Timing = {
  openMs: 20_000,
  repeatMs: 15_000,
  pingMs: 300_000,
  idlePingMs: 540_000,
  lifetimeMs: 6_600_000,
  pauseMs: 500,
  longestPauseMs: 60_000,
  tickMs: 250,
};
