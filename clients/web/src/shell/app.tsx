import { useSignal } from '@preact/signals';
import { visible } from '../conversation/safe.ts';
import { ConversationView } from '../conversation/view.tsx';
import { reasonOf, t } from '../i18n/index.ts';
import { InspectorView } from '../inspector/view.tsx';
import { showsNotes } from '../notes/kept.ts';
import { NotesDialog } from '../notes/view.tsx';
import { link, live, open, sessionOfAddress, useToken } from '../live.ts';
import { problem, provider, signIn, user } from '../signin/login.ts';
import { hostOf } from '../signin/provider.ts';
import { QuestionPanel, ReviewPanel } from '../review/panel.tsx';
import { review } from '../review/state.ts';
import { SessionsView } from '../sessions/view.tsx';
import { questions } from '../workspace/dialogue.ts';
import { FilesView } from '../workspace/view.tsx';
import { Icon } from './icon.tsx';
import { type Pane, pane, side } from './panes.ts';
import { TopBar } from './topbar.tsx';

export function App() {
  const drawer = useSignal(false);
  const choose = (next: Pane) => {
    pane.value = next;
    if (next === 'files' || next === 'inspector') side.value = side.value === next && window.innerWidth >= 900 ? '' : next;
    drawer.value = next === 'sessions' ? !drawer.value : false;
  };
  const isNarrow = window.innerWidth < 900;
  const isPressed = (one: Pane) => isNarrow ? pane.value === one : (one === 'chat' ? pane.value === 'chat' : one === 'sessions' ? drawer.value : side.value === one);
  const [question] = questions.value;
  const leaveDrawer = (event: KeyboardEvent) => {
    const isOver = drawer.value && window.innerWidth < 1400; // in wider windows the list is beside the conversation
    if (event.key !== 'Escape' || event.defaultPrevented || !isOver || document.querySelector('dialog[open]')) return;
    event.preventDefault(); // and nothing is stopped
    drawer.value = false;
    if (isNarrow) pane.value = 'chat';
  };
  return (
    <div class={`app pane-${pane.value} side-${side.value || 'none'} ${drawer.value ? 'drawer' : ''}`} onKeyDown={leaveDrawer}>
      {live.value && (
        <a class="skip" href="#message" onClick={(event) => (event.preventDefault(), document.getElementById('message')?.focus())}>
          {t('app.skip')}
        </a>
      )}
      <TopBar />
      <nav class="views" aria-label={t('nav.views')}>
        {(['sessions', 'chat', 'files', 'inspector'] as const).map((one) => (
          <button key={one} type="button" class={`to-${one}`} aria-pressed={isPressed(one)} onClick={() => choose(one)}>
            <Icon name={one} />
            <span>{t(`nav.${one}`)}</span>
          </button>
        ))}
      </nav>
      <aside class="left" aria-label={t('nav.sessions')}>
        <SessionsView onChoice={() => ((pane.value = 'chat'), (drawer.value = false))} />
      </aside>
      <main onPointerDown={() => (drawer.value = false)}>{live.value ? <ConversationView key={live.value.session.sessionId} live={live.value} /> : <Gate />}</main>
      {side.value && (
        <aside class="right" aria-label={t(`nav.${side.value}`)}>
          {side.value === 'files' ? <FilesView /> : live.value && <InspectorView live={live.value} />}
        </aside>
      )}
      {link.value.state === 'ended' && live.value && <Ended />}
      {review.value && <ReviewPanel given={review.value} />}
      {showsNotes.value && <NotesDialog onClose={() => (showsNotes.value = false)} />}
      {question && <QuestionPanel key={question} question={question} />}
    </div>
  );
}

/** What is there without a session: the connection begins, or needs a token. */
function Gate() {
  const state = link.value;
  if (state.state !== 'ended') return <p class="note gate">{t('link.connecting')}</p>;
  return state.unauthorized ? <Unauthorized error={state.error} /> : <Lost error={state.error} />;
}

function Ended() {
  const state = link.value;
  if (state.state !== 'ended') return null;
  return <div class="over">{state.unauthorized ? <Unauthorized error={state.error} /> : <Lost error={state.error} />}</div>;
}

function Lost({ error }: { error: unknown }) {
  return (
    <section class="gate" role="alert">
      <h2>{t('link.ended')}</h2>
      <p>{visible(reasonOf(error))}</p>
      <button type="button" class="primary" onClick={() => open(sessionOfAddress())}>
        {t('link.again')}
      </button>
    </section>
  );
}

/** Users sign in at the server's provider; without one, they paste a token. */
function Unauthorized({ error }: { error: unknown }) {
  const client = provider.value;
  if (!client) return <TokenForm isRefused={user.value !== '' || error !== undefined} />;
  let host = '';
  let wrong = problem.value ?? (user.value ? error : undefined);
  try {
    host = hostOf(client);
  } catch (refusal) {
    wrong = refusal;
  }
  return (
    <section class="gate">
      <h2>{t('signin.title')}</h2>
      {host && <p>{t('signin.text', { host })}</p>}
      <p class="problem" role="alert">
        {wrong === undefined ? '' : visible(reasonOf(wrong))}
      </p>
      {host && (
        <button type="button" class="primary" onClick={() => void signIn()}>
          {t('signin.go')}
        </button>
      )}
    </section>
  );
}

function TokenForm({ isRefused }: { isRefused: boolean }) {
  const value = useSignal('');
  return (
    <form
      class="gate"
      onSubmit={(event) => {
        event.preventDefault();
        useToken(value.value);
      }}
    >
      <h2>{t('token.title')}</h2>
      <p>{t('token.text')}</p>
      {isRefused && (
        <p class="problem" role="alert">
          {t('token.refused')}
        </p>
      )}
      <label>
        {t('token.label')}
        <input type="password" autoComplete="off" required value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        {t('token.use')}
      </button>
    </form>
  );
}
