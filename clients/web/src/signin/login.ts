import { signal } from '@preact/signals';
import { SessionError } from '@codelab/client';
import { messageOf } from '../../../typescript/src/errors.ts';
import { expiresAt, refreshAt, subject } from '../../../typescript/src/tokens.ts';
import * as flow from './code_flow.ts';
import type { ClientConfig } from './config.ts';
import { type Client, type Login, Provider, Refusal } from './provider.ts';

// In this tab only: never in localStorage, which outlives it and which every tab can read.
const PASTED = 'codelab.token';
const LOGIN = 'codelab.login';

/** As whom users sign in; undefined where they need no token, or paste one. */
export const provider = signal<Client | undefined>(undefined);
/** The user that the token is of; empty without one. */
export const user = signal('');
/** Why the last sign-in failed; undefined if it has not. */
export const problem = signal<unknown>(undefined);

let login: Login | undefined;
let renewing: Promise<void> | undefined;

/** Take what the server says about signing in, and the answer of the provider if the page comes from there. */
export async function start({ auth }: ClientConfig): Promise<void> {
  const { issuer, client_id: clientId, audience = '' } = auth;
  provider.value = auth.mode === 'jwt' && issuer && clientId ? { issuer, clientId, audience } : undefined;
  const answer = flow.takeAnswer();
  login = kept();
  if (answer && provider.value) {
    try {
      keep(await flow.finish(answer, provider.value));
    } catch (error) {
      problem.value = error;
    }
  }
  tell();
}

/** Whether there is a token to send. */
export function hasToken(): boolean {
  return (login?.token ?? sessionStorage.getItem(PASTED) ?? '') !== '';
}

/** The newest token, renewed if it is time; empty without one. Throws if it has expired and cannot be renewed. */
export async function token(): Promise<string> {
  if (!login) return sessionStorage.getItem(PASTED) ?? '';
  const due = refreshAt(login.token);
  if (login.refresh && due !== undefined && due <= Date.now()) {
    renewing ??= renew(login).finally(() => (renewing = undefined));
    await renewing;
  }
  return login?.token ?? '';
}

export function paste(value: string): void {
  sessionStorage.setItem(PASTED, value.trim());
  tell();
}

export async function signIn(): Promise<void> {
  problem.value = undefined;
  try {
    await flow.begin(provider.value!);
  } catch (error) {
    problem.value = error;
  }
}

/** Forget the token, and have the provider forget the login if it can. */
export async function signOut(): Promise<void> {
  const before = login;
  login = undefined;
  sessionStorage.removeItem(LOGIN);
  sessionStorage.removeItem(PASTED);
  tell();
  if (!before?.refresh) return;
  const from = await Provider.discover(before.client);
  if (from.has('revocation_endpoint')) {
    await from.post('revocation_endpoint', { token: before.refresh, token_type_hint: 'refresh_token' });
  }
}

async function renew(old: Login): Promise<void> {
  try {
    const from = await Provider.discover(old.client);
    const given = await from.post('token_endpoint', { grant_type: 'refresh_token', refresh_token: old.refresh });
    const renewed = from.login(given, { old });
    if (subject(renewed.token) !== subject(old.token)) throw new Refusal('The provider gave the token of another user');
    if (login === old) keep(renewed); // else the user has signed out meanwhile
  } catch (error) {
    // It still counts: the next attempt may succeed.
    if ((expiresAt(old.token) ?? 0) > Date.now()) return;
    problem.value = error;
    throw new SessionError('unauthorized', messageOf(error));
  }
}

function keep(given: Login): void {
  login = given;
  sessionStorage.setItem(LOGIN, JSON.stringify(given));
}

/** The login of this tab, unless the server names another provider now. */
function kept(): Login | undefined {
  const found: Login | undefined = JSON.parse(sessionStorage.getItem(LOGIN) ?? 'null') ?? undefined;
  return found && JSON.stringify(found.client) === JSON.stringify(provider.value) ? found : undefined;
}

function tell(): void {
  user.value = subject(login?.token ?? sessionStorage.getItem(PASTED) ?? '');
}
