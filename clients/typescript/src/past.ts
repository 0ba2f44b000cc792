import { overHttp, type Rest } from "./rest.ts";

/**
 * A fork of a session that ends before a message, so that another one can be sent in its place: the session stays as it
 * is. `messageId`: the `id` of a user's message. Gives the fork's id. Throws a SessionError, or an Error if the history
 * does not have the message.
 */
export async function forkBefore(rest: Rest, sessionId: string, messageId: string): Promise<string> {
  return (await overHttp()).forkBefore(rest, sessionId, messageId);
}
