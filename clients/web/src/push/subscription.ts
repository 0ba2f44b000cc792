import { signal } from '@preact/signals';
import type { Rest } from '@codelab/client';
import { reasonOf, t } from '../i18n/index.ts';
import { stored } from '../shell/stored.ts';
import { user } from '../signin/login.ts';

/** What the server calls this browser's subscription, whose it is, and when the server was last told of it (ms). */
interface Told {
  id: string;
  user: string;
  at: number;
}

const NONE: Told = { id: '', user: '', at: 0 };
/** The server forgets a browser that it does not hear of for two months. */
const DAY_MS = 86_400_000;

/** What the server knows of this browser; an empty id if it is not to be told that the agent waits. */
export const told = stored<Told>('push', NONE, (value) => {
  const { id, user: of, at } = Object(value) as Record<string, unknown>;
  return typeof id === 'string' && typeof of === 'string' && typeof at === 'number' ? { id, user: of, at } : NONE;
});
/** Why it is not, though the user wants it; empty if nothing is wrong. */
export const pushProblem = signal('');

/** Begin or end to be told, also while the page is closed. It asks the browser, which asks the user on a click only. */
export async function wantPushes(wanted: boolean, rest: Rest): Promise<void> {
  pushProblem.value = '';
  try {
    if (wanted) pushProblem.value = await subscribe(rest);
    else await forgetPushes(rest);
  } catch (error) {
    pushProblem.value = reasonOf(error);
  }
}

/** Have neither the server nor the browser's push service tell this browser any more. */
export async function forgetPushes(rest: Rest): Promise<void> {
  const { id, user: of } = told.value;
  told.value = NONE;
  // Of another user it cannot be removed, but it leads nowhere any more: the server removes it when it finds that out.
  if (id && of === user.value) void rest.request('DELETE', `/push/subscriptions/${id}`).catch(() => {});
  await (await subscription())?.unsubscribe();
}

/** Tell the server that this browser is still there, if it is time; end what is another user's, or what has ended. */
export async function renewPushes(rest: Rest): Promise<void> {
  const { id, user: of, at } = told.value;
  if (!id) return;
  const known = Notification.permission === 'granted' ? await subscription() : undefined;
  if (!known || of !== user.value) return forgetPushes(rest);
  await register();
  if (Date.now() - at < DAY_MS) return;
  const key = await keyOf(rest);
  if (!key) await forgetPushes(rest);
  else if (known.options?.applicationServerKey && String(new Uint8Array(known.options.applicationServerKey)) === String(key)) await tell(rest, known);
  else await subscribe(rest); // The server has another key now.
}

/** Why it cannot be; empty if it is. Throws an Error, too. */
async function subscribe(rest: Rest): Promise<string> {
  if (!('serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window)) return t('push.unsupported');
  if (Notification.permission === 'denied') return t('notify.refused');
  const key = await keyOf(rest);
  if (!key) return t('push.none'); // And nobody is asked for a permission that is good for nothing.
  if ((await Notification.requestPermission()) !== 'granted') return t('notify.refused');
  const { pushManager } = await register();
  await (await pushManager.getSubscription())?.unsubscribe(); // It may be another user's, or for another key.
  const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  try {
    await tell(rest, made);
  } catch (error) {
    await made.unsubscribe();
    throw error;
  }
  return '';
}

async function tell(rest: Rest, { endpoint }: PushSubscription): Promise<void> {
  const { id } = await rest.request<{ id: string }>('PUT', '/push/subscriptions', { endpoint });
  told.value = { id, user: user.value, at: Date.now() };
}

async function subscription(): Promise<PushSubscription | undefined> {
  const registration = await navigator.serviceWorker?.getRegistration();
  return (await registration?.pushManager?.getSubscription()) ?? undefined;
}

/** The page's policy lets a string name a script only through this. */
let policy: { createScriptURL(url: string): string } | undefined;

/** Install the page's service worker, which shows a text in the page's language. */
async function register(): Promise<ServiceWorkerRegistration> {
  const { trustedTypes } = window as { trustedTypes?: { createPolicy(name: string, rules: { createScriptURL(url: string): string }): typeof policy } };
  policy ??= trustedTypes?.createPolicy('push', { createScriptURL: (title) => `/push.js?title=${encodeURIComponent(title)}` });
  const title = t('notify.title');
  await navigator.serviceWorker.register(policy?.createScriptURL(title) ?? `/push.js?title=${encodeURIComponent(title)}`);
  return navigator.serviceWorker.ready;
}

/** The key that the server signs with; undefined if it does not push. */
async function keyOf(rest: Rest): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const { application_server_key: key } = await rest.request<{ application_server_key: string | null }>('GET', '/push');
  return key ? Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0)) : undefined;
}
