import type { HistoryPage, Rest } from "./rest.ts";

/** A page of the history, with the turn that was running when it was read. */
export interface NewestHistory extends HistoryPage {
  runningTurn: string | undefined;
  title: string;
}

/** Messages that are asked for at once. */
const PAGE = 100;

/** The newest page of a session's history. Throws a SessionError. */
export async function newestHistory(rest: Rest, sessionId: string): Promise<NewestHistory> {
  const now = () => rest.request<{ title?: string; turn_id?: string | null }>("GET", `/sessions/${encodeURIComponent(sessionId)}`);
  for (let before = await now(); ; ) {
    const page = await rest.history(sessionId, { limit: PAGE });
    const after = await now();
    const runningTurn = after.turn_id ?? undefined;
    // Of a turn that has begun or ended meanwhile, the page may have only a part.
    if (runningTurn === (before.turn_id ?? undefined)) return { ...page, runningTurn, title: after.title ?? "" };
    before = after;
  }
}

/** The page before another one, whose `next_cursor` it takes. Throws a SessionError. */
export function earlierHistory(rest: Rest, sessionId: string, cursor: string): Promise<HistoryPage> {
  return rest.history(sessionId, { limit: PAGE, cursor });
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
