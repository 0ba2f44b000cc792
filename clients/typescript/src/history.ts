import { SessionError } from "./errors.ts";
import type { HistoryAction } from "./history_state.ts";
import type { HistoryPage, Rest } from "./rest.ts";

/** What a page of the history does to the state, and what asks for the page before it. */
export interface Read {
  page: HistoryAction;
  earlier: string | undefined;
}

type PageFields = "messages" | "hasEarlier";
type Kind = Omit<Extract<HistoryAction, { type: "history" }>, PageFields> | { type: "earlier_history" };

/** Messages that are asked for at once. */
const PAGE = 100;

/** Read the newest page of a session's history. Gives nothing if there is no such session. Throws a SessionError. */
export async function newestHistory(rest: Rest, sessionId: string): Promise<Read | undefined> {
  const now = () => rest.request<{ title?: string; turn_id?: string | null }>("GET", `/sessions/${encodeURIComponent(sessionId)}`);
  try {
    for (let before = await now(); ; ) {
      const page = await rest.history(sessionId, { limit: PAGE });
      const after = await now();
      const runningTurn = after.turn_id ?? undefined;
      const read = { lastSeq: page.last_seq, runningTurn, title: after.title ?? "" };
      // Of a turn that has begun or ended meanwhile, the page may have only a part.
      if (runningTurn === (before.turn_id ?? undefined)) return readOf(page, { type: "history", ...read });
      before = after;
    }
  } catch (error) {
    // A session begins to exist when it is connected to.
    if (error instanceof SessionError && error.code === "SESSION_NOT_FOUND") return undefined;
    throw error;
  }
}

/** Read the page before another one, by what that has as `earlier`. Throws a SessionError. */
export async function earlierHistory(rest: Rest, sessionId: string, cursor: string): Promise<Read> {
  return readOf(await rest.history(sessionId, { limit: PAGE, cursor }), { type: "earlier_history" });
}

function readOf({ messages, next_cursor: cursor }: HistoryPage, kind: Kind): Read {
  return { page: { ...kind, messages, hasEarlier: cursor != null }, earlier: cursor ?? undefined };
}

/** See `forkBefore` of `past.ts`. */
export async function forkBefore(rest: Rest, sessionId: string, messageId: string): Promise<string> {
  let end: number | undefined;
  for (let cursor: string | undefined; ; ) {
    const page = await rest.history(sessionId, { limit: PAGE, ...(cursor && { cursor }) });
    const first: number = (end ?? page.total) - page.messages.length;
    const index = page.messages.findIndex((message) => (message["message_id"] ?? message.id) === messageId);
    if (index >= 0) return (await rest.fork(sessionId, { up_to: first + index })).session_id;
    end = first;
    cursor = page.next_cursor ?? undefined;
    if (!cursor) throw new Error("The history does not have this message");
  }
}
