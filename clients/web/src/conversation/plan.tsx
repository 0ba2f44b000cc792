import { t } from '../i18n/index.ts';
import type { PlanStep } from '@codelab/client';
import { readable } from './safe.ts';

export function Plan({ items }: { items: readonly PlanStep[] }) {
  if (!items.length || items.every((item) => item.status === 'completed')) return null;
  const done = items.filter((item) => item.status === 'completed').length;
  return (
    <details class="plan" open>
      <summary>
        {t('plan')}{' '}
        <span class="count">
          {done}/{items.length}
        </span>
      </summary>
      <ol tabIndex={0} aria-label={t('plan')}>
        {items.map((item, index) => (
          <li key={index} class={item.status}>
            <span dir="auto">{readable(item.text)}</span>
            <span class="hidden"> ({t(`plan.${item.status}`)})</span>
          </li>
        ))}
      </ol>
    </details>
  );
}
