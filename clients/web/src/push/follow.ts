import { effect, untracked } from '@preact/signals';
import type { Rest } from '@codelab/client';
import { language, t } from '../i18n/index.ts';
import { go, link, live } from '../live.ts';
import { renewPushes } from './subscription.ts';

/** The address that a notice leads to. It names no session, because a push does not. */
const ADDRESS = '#/waiting';
/** This tab is to show what waits, also after its user has signed in. */
const WANTED = 'codelab.waiting';
/** How many sessions, the last active ones, are looked at. */
const LOOKED_AT = 10;

/** Go to what waits when a notice is clicked on, and keep the server told of this browser. */
export function followPushes(): void {
  const look = () => {
    if (location.hash !== ADDRESS) return;
    sessionStorage.setItem(WANTED, '1');
    history.replaceState(null, '', '/');
  };
  look();
  addEventListener('popstate', look);
  navigator.serviceWorker?.addEventListener('message', () => (sessionStorage.setItem(WANTED, '1'), showWaiting()));
  effect(() => {
    void language.value;
    if (link.value.state !== 'online' || !live.value) return;
    const { rest } = live.value.session;
    untracked(() => {
      showWaiting();
      void renewPushes(rest).catch(() => {}); // At the next visit, then.
    });
  });
}

/** Open the session in which something waits, unless it is open. */
function showWaiting(): void {
  const here = live.peek();
  if (!here || link.peek().state !== 'online' || !sessionStorage.getItem(WANTED)) return;
  sessionStorage.removeItem(WANTED);
  if (here.conversation.approvals.peek().length) return;
  waitingSession(here.session.rest).then(
    (id) => {
      if (live.peek() !== here) return; // The user has gone elsewhere.
      if (id) go(id);
      else here.conversation.failed(new Error(t('push.nothing')));
    },
    (error: Error) => here.conversation.failed(error),
  );
}

async function waitingSession(rest: Rest): Promise<string | undefined> {
  const { sessions } = await rest.sessions({ limit: LOOKED_AT });
  const numbers = await Promise.all(sessions.map(async ({ session_id: id }) => {
    const answer = await rest.request<{ pending_approvals: unknown[] }>('GET', `/sessions/${encodeURIComponent(id)}/pending-approvals`);
    return answer.pending_approvals.length;
  }));
  return sessions[numbers.findIndex((number) => number > 0)]?.session_id;
}
