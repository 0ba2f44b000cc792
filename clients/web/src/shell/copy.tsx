import { useState } from 'preact/hooks';
import { t } from '../i18n/index.ts';
import { Icon } from './icon.tsx';

/** `label` says what is copied, where that is not plain to see. */
export function CopyButton({ text, label = t('copy') }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="icon" onClick={copy} aria-label={done ? t('copied') : label} title={done ? t('copied') : label}>
      <Icon name={done ? 'check' : 'copy'} />
    </button>
  );
}
