import type { Attachment, ConversationState, UserMessage } from '@codelab/client';

/** A message that may be sent once more, from a time on (milliseconds since the epoch). An empty text: the turn goes on. */
export interface Again {
  text: string;
  attachments: readonly Attachment[];
  at?: number | undefined;
}

/** What tries again if the last message was refused for now, or the model failed in the last turn. */
export function retryOf(messages: ConversationState['messages']): Again | undefined {
  let failed = false;
  let called = false;
  for (const message of messages.toReversed()) {
    if (message.role === 'user') return !failed ? undefined : called ? { text: '', attachments: [] } : asSent(message);
    for (const part of message.parts.toReversed()) {
      if (part.type === 'error' && part.isPassing && !failed) {
        const refused = messages.findLast((one) => one.id === part.refused);
        return refused?.role === 'user' ? { ...asSent(refused), at: part.retryAt } : undefined;
      }
      if (part.type === 'error' && part.code === 'LLM_ERROR') failed = true;
      else if (!failed && part.type !== 'compacted') return undefined;
      else if (part.type === 'call') called = true;
    }
  }
  return undefined;
}

/** The texts and attachments of a message, as they were sent from here. */
export function asSent({ text, attachments }: UserMessage): Again {
  return { text, attachments: attachments.filter((one): one is Attachment => 'data' in one || 'content' in one) };
}
