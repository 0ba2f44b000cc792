import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { RuleInfo, Session } from '@codelab/client';
import { visible } from '../conversation/safe.ts';
import { reasonOf, t } from '../i18n/index.ts';
import { Problem } from './problem.tsx';

/** The remembered decisions of the session and of the user, each of which can be revoked. */
export function Rules({ session }: { session: Session }) {
  const rules = useSignal<readonly RuleInfo[] | undefined>(undefined);
  const problem = useSignal('');
  const show = (asked: Promise<readonly RuleInfo[]>) =>
    asked.then(
      (found) => {
        rules.value = found;
        problem.value = '';
      },
      (error: unknown) => (problem.value = reasonOf(error)),
    );
  const look = () => show(session.rules());
  useEffect(() => void look(), [session]);
  return (
    <section class="rules" aria-label={t('rules')}>
      <h3>{t('rules')}</h3>
      {rules.value?.length === 0 && <p class="note">{t('rules.none')}</p>}
      <ul>
        {(rules.value ?? []).map((rule) => {
          const name = `${visible(rule.tool_name)} ${visible(rule.covers)}`;
          return (
            <li key={rule.rule_id}>
              <code>{name}</code> <small>{`${t(`rules.${rule.decision}`)} · ${t(`call.always.${rule.scope}`)}`}</small>{' '}
              <button type="button" aria-label={t('rules.revoke.of', { rule: name })} onClick={() => void show(session.revoke(rule.rule_id))}>
                {t('rules.revoke')}
              </button>
            </li>
          );
        })}
      </ul>
      <Problem text={problem.value} retry={look} />
    </section>
  );
}
