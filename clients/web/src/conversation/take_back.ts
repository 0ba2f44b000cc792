import type { CallPart } from '@codelab/client';
import { type Change, make } from '../workspace/changes.ts';
import { Changed } from '../workspace/expectations.ts';
import { folder, lastChanged, version } from '../workspace/open.ts';
import type { Live } from '../live.ts';
import { visibleLine } from './safe.ts';
import { tellUndone } from './undone.tsx';

/** What a call has changed, if this page has executed it. */
export function changesBy(part: CallPart): readonly Change[] {
  return (part.diff as readonly Change[] | undefined) ?? [];
}

/** Whether this page has made the changes of a call, in the folder that is open. */
export function isHere({ conversation }: Live, part: CallPart): boolean {
  const made = conversation.made.value.get(part.id);
  return made?.folder !== undefined && made.folder === folder.value && part.state === 'completed';
}

/** Take back what a call has changed. The session's next message says so. Throws Changed if a file was changed since, and then changes nothing. */
export async function takeBack({ conversation, session }: Live, part: CallPart): Promise<void> {
  const changes = changesBy(part);
  const made = conversation.made.value.get(part.id);
  await make(made!.folder!, [...changes].reverse().map(({ path, before, after }) => ({ path, before: after, after: before })));
  conversation.undone(part.id);
  tellUndone(session.sessionId, part.id, changes.map((change) => visibleLine(change.path)));
  lastChanged.value = changes.map((change) => change.path);
  version.value++;
}

/** The calls since a message that can be taken back, the newest first. */
export function madeSince(here: Live, messageId: string): CallPart[] {
  const { value: messages } = here.conversation.messages;
  const place = messages.findIndex((message) => message.id === messageId);
  const parts = messages.slice(place < 0 ? messages.length : place).flatMap((message) => (message.role === 'assistant' ? message.parts : []));
  return parts.filter((part): part is CallPart => part.type === 'call' && isHere(here, part)).reverse();
}

/** Take back what calls have changed, as far as nobody has changed it since. Gives the paths that stay. */
export async function takeAllBack(here: Live, calls: readonly CallPart[]): Promise<string[]> {
  const left = new Set<string>();
  for (const part of calls) {
    try {
      await takeBack(here, part);
    } catch (error) {
      if (!(error instanceof Changed)) throw error;
      for (const { path } of changesBy(part)) left.add(path);
    }
  }
  return [...left].map(visibleLine);
}
