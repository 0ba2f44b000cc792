import type { HistoryAction } from "./history_state.ts";
import { reduce } from "./reduce.ts";
import { overHttp, type Rest } from "./rest.ts";
import type { ConversationState } from "./state.ts";

/**
 * Load what puts pages of the history into a state, as a conversation does by itself: the newest one first, then those
 * before it. The function that it gives is pure.
 */
export async function historyReducer(): Promise<(state: ConversationState, page: HistoryAction) => ConversationState> {
  const { reduceHistory } = await overHttp();
  return (state, page) => reduceHistory(reduce, state, page);
}


/**
 * A fork of a session that ends before a message, so that another one can be sent in its place: the session stays as it
 * is. `messageId`: the `id` of a user's message. Gives the fork's id. Throws a SessionError, or an Error if the history
 * does not have the message.
 */
export async function forkBefore(rest: Rest, sessionId: string, messageId: string): Promise<string> {
  return (await overHttp()).forkBefore(rest, sessionId, messageId);
}
