import { useSignal } from '@preact/signals';
import { MODES } from '../conversation/commands.ts';
import { readable, visible } from '../conversation/safe.ts';
import { counted, language, n, reasonOf, t, type Language } from '../i18n/index.ts';
import { link, live, signOut } from '../live.ts';
import { showsNotes } from '../notes/kept.ts';
import { pushProblem, told, wantPushes } from '../push/subscription.ts';
import { user } from '../signin/login.ts';
import { Dialog } from './dialog.tsx';
import { Icon } from './icon.tsx';
import { settings } from './panes.ts';
import { Rules } from './rules.tsx';
import { theme, type Theme } from './theme.ts';
import { allowNotices, refusesNotices, wantsNotices } from './waiting.ts';

export function TopBar() {
  const open = live.value;
  const { state } = link.value;
  const title = open?.conversation.title.value ?? '';
  const linkText = t(`link.${state}`, { s: '…' });
  return (
    <header class="top">
      <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" />
        <path d="M13 10 7 16l6 6M19 10l6 6-6 6" />
      </svg>
      <h1 dir="auto" class={title ? 'titled' : ''}>{readable(title) || t('app.name')}</h1>
      <span class={`link ${state}`} title={linkText}>
        <span class="hidden">{linkText}</span>
      </span>
      {open && <Meter />}
      {open && <AgentChoice />}
      <button type="button" class="icon" aria-label={t('nav.settings')} title={t('nav.settings')} onClick={() => (settings.value = true)}>
        <Icon name="settings" />
      </button>
      {settings.value && <SettingsDialog onClose={() => (settings.value = false)} />}
    </header>
  );
}

function AgentChoice() {
  const { conversation, session } = live.value!;
  const agent = conversation.agent.value;
  const agents = conversation.info.value?.agents ?? [];
  const names = new Set([...agents.map((one) => one.name), ...(agent ? [agent] : [])]);
  return (
    <select
      class="agent"
      aria-label={t('agent')}
      value={agent}
      onChange={({ currentTarget: select }) =>
        void session.switchAgent(select.value).catch((error: Error) => {
          select.value = conversation.agent.value;
          conversation.failed(error);
        })
      }
    >
      {[...names].map((name) => (
        <option key={name} value={name} title={agents.find((one) => one.name === name)?.description}>
          {visible(name)}
        </option>
      ))}
    </select>
  );
}

/** What the session has used, and how full the model's context is. */
function Meter() {
  const { conversation } = live.value!;
  const { tokens, cost, context } = conversation.usage.value;
  const most = conversation.info.value?.limits['context_tokens'];
  const share = typeof most === 'number' && context !== undefined ? Math.min(1, context / most) : undefined;
  const text = [
    share !== undefined && t('meter.context', { n: n(context!), max: n(most!) }),
    counted('meter.tokens', tokens),
    cost !== undefined && t('meter.cost', { cost: cost.toFixed(4) }),
  ].filter(Boolean);
  if (!tokens && share === undefined) return null;
  return (
    <span class="meter" title={text.join('\n')}>
      <span class="hidden">{text.join(', ')}</span>
      {share !== undefined && <progress max={1} value={share} aria-label={t('meter.context', { n: n(context!), max: n(most!) })} />}
      <span aria-hidden="true">{compact(tokens)}</span>
      {cost !== undefined && <span aria-hidden="true">${cost.toFixed(3)}</span>}
    </span>
  );
}

function compact(value: number): string {
  return value.toLocaleString(language.value, { notation: 'compact', maximumFractionDigits: 1 });
}

function SettingsDialog({ onClose }: { onClose(): void }) {
  const open = live.value;
  const problem = useSignal('');
  const chosen = (open?.conversation.info.value?.settings ?? {}) as Record<string, unknown>;
  const info = open?.conversation.info.value;
  const models = info?.models ?? [];
  const levels = models.find((model) => model.name === info?.model)?.thinking ?? [];
  const configure = (change: Record<string, string>) => {
    problem.value = '';
    void open?.session.configure(change).catch((error: unknown) => (problem.value = reasonOf(error)));
  };
  return (
    <Dialog title={t('nav.settings')} onClose={onClose}>
      <div class="fields">
        <Choice label={t('language')} value={language.value} options={{ en: 'English', ru: 'Русский' }} onChoice={(value) => (language.value = value as Language)} />
        <Choice
          label={t('theme')}
          value={theme.value}
          options={{ system: t('theme.system'), light: t('theme.light'), dark: t('theme.dark') }}
          onChoice={(value) => (theme.value = value as Theme)}
        />
        {'Notification' in window && (
          <label class="check">
            <input type="checkbox" checked={wantsNotices.value} onChange={(event) => void allowNotices(event.currentTarget.checked)} />
            {t('notify')}
          </label>
        )}
        {open && (
          <label class="check">
            <input
              type="checkbox"
              checked={told.value.id !== ''}
              onChange={({ currentTarget: box }) =>
                void wantPushes(box.checked, open.session.rest).finally(() => (box.checked = told.value.id !== ''))
              }
            />
            {t('push')}
          </label>
        )}
        {open && (
          <>
            <Choice
              label={t('mode')}
              value={info?.mode ?? 'code'}
              options={Object.fromEntries(MODES.map((mode) => [mode, t(`mode.${mode}`)]))}
              onChoice={(mode) => configure({ mode })}
            />
            <Choice
              label={t('busy')}
              value={String(chosen['when_busy'] ?? 'queue')}
              options={{ queue: t('busy.queue'), interrupt: t('busy.interrupt'), reject: t('busy.reject') }}
              onChoice={(when_busy) => configure({ when_busy })}
            />
            {models.length > 0 && (
              <Choice
                label={t('model')}
                value={info?.model ?? ''}
                options={Object.fromEntries(models.map(({ name }) => [name, name]))}
                onChoice={(model) => configure({ model })}
              />
            )}
            {levels.length > 0 && (
              <Choice
                label={t('thinking')}
                value={String(chosen['thinking'] ?? '')}
                options={Object.fromEntries([...('thinking' in chosen ? [] : ['']), ...levels].map((level) => [level, level || '—']))}
                onChoice={(thinking) => thinking && configure({ thinking })}
              />
            )}
          </>
        )}
      </div>
      <p class="below">
        <button type="button" onClick={() => (onClose(), (showsNotes.value = true))}>
          {t('notes.show')}
        </button>
      </p>
      {open && <Rules session={open.session} />}
      {user.value && (
        <p class="signed-in">
          <span dir="auto">{t('signin.user', { user: visible(user.value) })}</span>
          <button type="button" onClick={() => (onClose(), void signOut())}>
            {t('signin.out')}
          </button>
        </p>
      )}
      <p class="problem" role="alert">
        {problem.value || visible(pushProblem.value) || (refusesNotices.value ? t('notify.refused') : '')}
      </p>
    </Dialog>
  );
}

function Choice(given: { label: string; value: string; options: Record<string, string>; onChoice(value: string): void }) {
  return (
    <label>
      {given.label}
      <select value={given.value} onChange={(event) => given.onChoice(event.currentTarget.value)}>
        {Object.entries(given.options).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
