import { t } from '../i18n/index.ts';
import { Icon } from '../shell/icon.tsx';
import { stored } from '../shell/stored.ts';

interface Undone {
  sessionId: string;
  callId: string;
  /** As they are shown. */
  paths: readonly string[];
}

/** Undone calls that are kept until a message of their sessions tells them. */
const MOST_UNDONE = 50;

/** What the user has undone since the last message. The next one says so, unless the user takes that out. */
const undone = stored<readonly Undone[]>('undone', [], (value) => (Array.isArray(value) ? value.filter(isUndone) : []));

function isUndone(value: unknown): value is Undone {
  const { sessionId, callId, paths } = (value ?? {}) as Record<string, unknown>;
  return [sessionId, callId, ...(Array.isArray(paths) ? paths : [undefined])].every((one) => typeof one === 'string');
}

/** Have the session's next message tell the agent that the changes of a call are undone. */
export function tellUndone(sessionId: string, callId: string, paths: readonly string[]): void {
  undone.value = [...undone.value, { sessionId, callId, paths }].slice(-MOST_UNDONE);
}

/** What the session's next message says behind its own text; empty: nothing is undone. */
export function undoneText(sessionId: string): string {
  return undone.value.filter((one) => one.sessionId === sessionId).map((one) => `\n\n${sentence(one)}`).join('');
}

/** A message of the session has said it. */
export function undoneTold(sessionId: string): void {
  undone.value = undone.value.filter((one) => one.sessionId !== sessionId);
}

function sentence({ paths }: Undone): string {
  return t('undone.told', { paths: paths.join(', ') });
}

/** What the next message says, each sentence with a button that takes it out. */
export function UndoneView({ sessionId }: { sessionId: string }) {
  return (
    <>
      {undone.value
        .filter((one) => one.sessionId === sessionId)
        .map((one) => (
          <p key={one.callId} class="note told">
            {sentence(one)}
            <button
              type="button"
              class="icon"
              aria-label={t('undone.untold')}
              title={t('undone.untold')}
              onClick={() => (undone.value = undone.value.filter((other) => other !== one))}
            >
              <Icon name="close" />
            </button>
          </p>
        ))}
    </>
  );
}
