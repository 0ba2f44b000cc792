/** What the tests against the running system share. `make test` starts the system and sets its address. */

import WebSocket from "ws";

import { createSession, memoryJournal, type Session, type SessionOptions } from "../../src/index.ts";

export const url = process.env["CODELAB_URL"] ?? "";
/** The same system behind a proxy. */
export const proxyUrl = process.env["CODELAB_PROXY"] ?? url;

const opened: Session[] = [];

/** A session that notices quickly what is missing. It is not open yet. */
export function newSession(options: Partial<SessionOptions> = {}): Session {
  const session = createSession({
    url,
    WebSocket,
    journal: memoryJournal(),
    timing: { repeatMs: 3_000, tickMs: 50, pauseMs: 20, longestPauseMs: 200 },
    ...options,
  });
  opened.push(session);
  return session;
}

export function openSession(options: Partial<SessionOptions> = {}): Promise<Session> {
  return newSession(options).open();
}

export async function closeSessions(): Promise<void> {
  await Promise.all(opened.splice(0).map((session) => session.close()));
}
