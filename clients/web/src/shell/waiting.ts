import { computed, effect, signal } from '@preact/signals';
import { proposedPlan } from '../conversation/proposed_plan.tsx';
import { readable, visible, visibleLine } from '../conversation/safe.ts';
import { counted, t } from '../i18n/index.ts';
import { live } from '../live.ts';
import { told as pushed } from '../push/subscription.ts';
import { stored } from './stored.ts';

/** Whether the user wants to be notified; the browser may still refuse. */
export const wantsNotices = stored('notify', false, (value) => value === true);
/** Whether the browser has refused. */
export const refusesNotices = signal(false);

/** The calls that wait for a decision. */
const waiting = computed(() => (live.value?.conversation.approvals.value ?? []).map(({ call }) => call));

/** Ask the browser to allow notices, which it does on a click only. */
export async function allowNotices(wanted: boolean): Promise<void> {
  wantsNotices.value = wanted && 'Notification' in window && (await Notification.requestPermission()) === 'granted';
  refusesNotices.value = wanted && !wantsNotices.value;
}

const told = new Set<string>();

/** A browser that is also pushed to shows one notice for both: the service worker's, whose tag is always the same. */
async function notify(body: string, callId: string): Promise<void> {
  const [title, icon] = [t('notify.title'), '/favicon-waiting.svg'];
  const worker = pushed.peek().id ? await navigator.serviceWorker.getRegistration() : undefined;
  if (worker) return worker.showNotification(title, { body, tag: 'waiting', icon });
  new Notification(title, { body, tag: callId, icon }).onclick = () => window.focus();
}

/** The tab says that a decision is waited for, with its title and its icon, and a notice does if nobody looks. */
export function signalWaiting(): void {
  effect(() => {
    const number = waiting.value.length;
    const title = readable(live.value?.conversation.title.value ?? '') || t('app.name');
    document.title = number ? `(${counted('waiting', number)}) ${title}` : title;
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')!;
    const path = number ? '/favicon-waiting.svg' : '/favicon.svg';
    if (icon.getAttribute('href') !== path) icon.setAttribute('href', path);
  });
  effect(() => {
    for (const frame of waiting.value) {
      if (told.has(frame.call_id)) continue;
      told.add(frame.call_id);
      if (!document.hidden || !wantsNotices.peek() || Notification.permission !== 'granted') continue;
      const name = proposedPlan(frame) ? t('plan') : visible(frame.tool_name);
      const body = `${name} ${visibleLine(frame.paths?.join(', ') ?? '')}`.trim();
      void notify(body, frame.call_id);
    }
  });
}
