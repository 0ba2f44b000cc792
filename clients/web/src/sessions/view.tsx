import { useSignal, useSignalEffect } from '@preact/signals';
import type { SessionSummary } from '@codelab/client';
import { readable } from '../conversation/safe.ts';
import { ago, reasonOf, t } from '../i18n/index.ts';
import { go, listSessions, live, open, sessionsChanged } from '../live.ts';
import { Dialog } from '../shell/dialog.tsx';
import { Icon } from '../shell/icon.tsx';
import { Problem } from '../shell/problem.tsx';

export function SessionsView({ onChoice }: { onChoice(): void }) {
  const found = useSignal<readonly SessionSummary[]>([]);
  const cursor = useSignal<string | undefined>(undefined);
  const query = useSignal('');
  const acting = useSignal<SessionSummary | undefined>(undefined);
  const problem = useSignal('');

  useSignalEffect(() => {
    void sessionsChanged.value;
    if (!live.value) return;
    let superseded = false; // an answer that comes late must not bring back a session deleted since it was asked for
    listSessions().then(
      (page) => {
        if (superseded) return;
        problem.value = '';
        found.value = page.sessions;
        cursor.value = page.next_cursor ?? undefined;
      },
      (error: unknown) => (problem.value = reasonOf(error)),
    );
    return () => {
      superseded = true;
    };
  });
  const more = async () => {
    problem.value = '';
    try {
      const page = await listSessions(cursor.value);
      found.value = [...found.value, ...page.sessions];
      cursor.value = page.next_cursor ?? undefined;
    } catch (error) {
      problem.value = reasonOf(error);
    }
  };
  const needle = query.value.trim().toLowerCase();
  const listed = found.value.filter((one) => `${one.title} ${one.session_id}`.toLowerCase().includes(needle));
  const choose = (id?: string) => {
    go(id);
    onChoice();
  };
  return (
    <div class="sessions">
      <button type="button" class="wide primary" onClick={() => choose()}>
        <Icon name="plus" />
        {t('sessions.new')}
      </button>
      <input
        type="search"
        aria-label={t('sessions.search')}
        placeholder={t('sessions.search')}
        value={query.value}
        onInput={(event) => (query.value = event.currentTarget.value)}
      />
      <nav aria-label={t('sessions.list')}>
        <ul>
          {listed.map((one) => {
            const title = readable(one.title).trim() || t('sessions.untitled');
            const current = live.value?.session.sessionId === one.session_id;
            return (
              <li key={one.session_id} class={current ? 'current' : ''}>
                <button type="button" class="one" aria-current={current ? 'page' : undefined} onClick={() => choose(one.session_id)}>
                  <span dir="auto">{title}</span>
                  <small>{ago(one.last_activity)}</small>
                </button>
                <button type="button" class="icon" aria-label={t('sessions.menu', { title })} onClick={() => (acting.value = one)}>
                  <Icon name="more" />
                </button>
              </li>
            );
          })}
        </ul>
        {!listed.length && !problem.value && <p class="note">{t(needle && found.value.length ? 'sessions.nothing' : 'sessions.none')}</p>}
        {cursor.value && (
          <button type="button" class="quiet" onClick={more}>
            {t('sessions.more')}
          </button>
        )}
      </nav>
      <Problem text={problem.value} retry={() => sessionsChanged.value++} />
      {acting.value && <Actions session={acting.value} onClose={() => (acting.value = undefined)} onOpen={choose} />}
    </div>
  );
}

function Actions({ session, onClose, onOpen }: { session: SessionSummary; onClose(): void; onOpen(id?: string): void }) {
  const title = useSignal(session.title);
  const sure = useSignal(false);
  const problem = useSignal('');
  const rest = live.value!.session.rest;
  const act = async (action: () => Promise<unknown>) => {
    try {
      await action();
      sessionsChanged.value++;
      onClose();
    } catch (error) {
      problem.value = reasonOf(error);
    }
  };
  const shown = readable(session.title).trim() || t('sessions.untitled');
  return (
    <Dialog title={shown} onClose={onClose}>
      <form
        class="rename"
        onSubmit={(event) => {
          event.preventDefault();
          void act(async () => {
            await rest.update(session.session_id, { title: title.value.trim() });
            if (live.value?.session.sessionId === session.session_id) live.value.conversation.source.dispatch({ type: 'titled', title: title.value.trim() });
          });
        }}
      >
        <label>
          {t('sessions.title')}
          <input type="text" maxLength={200} required value={title.value} onInput={(event) => (title.value = event.currentTarget.value)} />
        </label>
        <button type="submit">{t('sessions.rename')}</button>
      </form>
      <div class="buttons">
        <button type="button" onClick={() => act(async () => onOpen((await rest.fork(session.session_id)).session_id))}>
          {t('sessions.fork')}
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            if (!sure.value) {
              sure.value = true;
              return;
            }
            void act(async () => {
              const isOpen = live.value?.session.sessionId === session.session_id;
              await rest.delete(session.session_id);
              if (isOpen) void open(); // in its place: the way back must not lead to it
            });
          }}
        >
          {sure.value ? t('sessions.sure', { title: shown }) : t('sessions.delete')}
        </button>
      </div>
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </Dialog>
  );
}
