import { useState } from 'preact/hooks';
import { t } from '../i18n/index.ts';
import { Icon } from './icon.tsx';

export function CopyButton({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="icon" onClick={copy} aria-label={t(done ? 'copied' : 'copy')} title={t(done ? 'copied' : 'copy')}>
      <Icon name={done ? 'check' : 'copy'} />
    </button>
  );
}
