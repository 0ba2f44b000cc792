import { visible } from '../conversation/safe.ts';
import { t } from '../i18n/index.ts';

/** What went wrong, with a button that tries it again. Without a text, nothing did. */
export function Problem({ text, retry }: { text: string; retry?: (() => unknown) | undefined }) {
  return (
    <div class="trouble" role="alert">
      {text && <p class="problem">{visible(text)}</p>}
      {text && retry && (
        <button type="button" class="quiet" onClick={() => void retry()}>
          {t('chat.retry')}
        </button>
      )}
    </div>
  );
}
