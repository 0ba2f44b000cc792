import { t } from '../i18n/index.ts';
import type { Live } from '../live.ts';
import { draft } from './composer.tsx';

/** The messages that wait for the running turn. */
export function QueueView({ live }: { live: Live }) {
  const { queue } = live.conversation;
  if (!queue.value.length) return null;
  const withdraw = (id: string) => void live.conversation.source.withdraw(id);
  return (
    <ul class="queue">
      {queue.value.map((one) => (
        <li key={one.id}>
          <span dir="auto">{one.text}</span>
          <small>{t('chat.queued', { n: one.position })}</small>
          <span class="acts">
            <button
              type="button"
              class="quiet"
              hidden={!one.isWhole}
              onClick={() => {
                withdraw(one.id);
                draft.value = [one.text, draft.value].filter(Boolean).join('\n\n');
                document.getElementById('message')?.focus();
              }}
            >
              {t('chat.edit')}
            </button>
            <button type="button" class="quiet" onClick={() => withdraw(one.id)}>
              {t('chat.withdraw')}
            </button>
          </span>
        </li>
      ))}
    </ul>
  );
}
