/** The client of CodeLab Serverless: one conversation that survives broken connections. */

import { Conversation } from "./conversation.ts";
import { indexedDbJournal, memoryJournal } from "./journal.ts";
import type { SessionOptions } from "./options.ts";
import { Session } from "./session.ts";

export * from "./exports.ts";

/** A session that is not open yet: `open()` it after you have attached your listeners. */
export function createSession(options: SessionOptions): Session {
  const journal = options.journal ?? (typeof indexedDB === "undefined" ? memoryJournal() : indexedDbJournal());
  return new Session({ ...options, journal });
}

/** Open a session. Settles when everything missed has been replayed. */
export async function connect(options: SessionOptions): Promise<Session> {
  return createSession(options).open();
}

/**
 * A conversation for a view: a session with the state that it shows. Not open yet. With a `sessionId`, it begins with
 * the session's history.
 */
export function createConversation(options: SessionOptions): Conversation {
  // The whole log: its frames tell what the history does not, such as how calls ended.
  const create = (sessionId?: string) => createSession({ lastSeq: 0, ...options, sessionId });
  return new Conversation(create, options.sessionId);
}
