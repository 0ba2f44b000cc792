import { SessionError } from '@codelab/client';
import { claims } from '../../../typescript/src/tokens.ts';

/** As whom users sign in, and where. */
export interface Client {
  issuer: string;
  clientId: string;
  /** The server's; empty if it has none. */
  audience: string;
}

/** What a provider has given. `refresh` is empty if it gave no refresh token. */
export interface Login {
  token: string;
  refresh: string;
  client: Client;
}

/** The provider refused, and asking again would not help. */
export class Refusal extends Error {
  readonly kind = 'signin';
}

// Plain ASCII without a user name, so that the host that a user reads is the host that is asked.
const ADDRESS = /^https?:\/\/[A-Za-z0-9.-]+(:[0-9]{1,5})?(\/[A-Za-z0-9._~%/:+,-]*)?(\?[A-Za-z0-9._~%/:+,=&-]*)?$/;
const TIMEOUT_MS = 15_000;
const LATE_S = 60;

/**
 * An OpenID provider by its discovery document: OpenID Connect Core and Discovery 1.0, OAuth 2.0 with PKCE (RFC 7636).
 * The same rules as those of `codelab login`.
 */
export class Provider {
  readonly client: Client;
  readonly #said: Record<string, unknown>;

  private constructor(client: Client, said: Record<string, unknown>) {
    this.client = client;
    this.#said = said;
  }

  /** Ask the issuer about itself. */
  static async discover(client: Client): Promise<Provider> {
    const said = await ask(`${checkedIssuer(client.issuer).replace(/\/+$/, '')}/.well-known/openid-configuration`);
    if (said['issuer'] !== client.issuer) throw new Refusal(`${hostOf(client)} says that it is another: ${shown(said['issuer'])}`);
    return new Provider(client, said);
  }

  has(endpoint: string): boolean {
    return typeof this.#said[endpoint] === 'string';
  }

  /** The address of an endpoint. Only a provider on this machine may name an address on this machine. */
  endpoint(name: string): string {
    const url = this.#said[name];
    const isSafe = typeof url === 'string' && ADDRESS.test(url) && isPrivate(url);
    if (!isSafe || (isLoopback(url) && !isLoopback(this.client.issuer))) {
      throw new Refusal(`${hostOf(this.client)} names a ${name} that is not safe: ${shown(url)}`);
    }
    return url;
  }

  /** Whether it puts its name into every answer that comes by redirect (RFC 9207). */
  get namesItself(): boolean {
    return this.#said['authorization_response_iss_parameter_supported'] === true;
  }

  /** What to ask for: also a refresh token, if it says that it knows that scope. */
  get scope(): string {
    const known = this.#said['scopes_supported'];
    return Array.isArray(known) && known.includes('offline_access') ? 'openid offline_access' : 'openid';
  }

  post(endpoint: string, form: Record<string, string>): Promise<Record<string, unknown>> {
    return ask(this.endpoint(endpoint), new URLSearchParams({ client_id: this.client.clientId, ...form }));
  }

  /** The login in an answer of the token endpoint. `nonce` is what its ID token must repeat. */
  login(given: Record<string, unknown>, { nonce, old }: { nonce?: string; old?: Login }): Login {
    const { id_token: identity, access_token: access, refresh_token: refresh } = given;
    if (identity !== undefined || nonce !== undefined) this.#check(claims(text(identity)), nonce);
    for (const token of [text(access), text(identity)]) {
      if (this.#isForServer(claims(token))) return { token, refresh: text(refresh) || (old?.refresh ?? ''), client: this.client };
    }
    throw new Refusal(`${hostOf(this.client)} gave no token that the server takes`);
  }

  #isForServer(said: Record<string, unknown>): boolean {
    const { issuer, audience } = this.client;
    return said['iss'] === issuer && (!audience || listed(said['aud']).includes(audience));
  }

  /** OpenID Connect Core, 3.1.3.7. It came over TLS from the provider itself, which stands for the signature. */
  #check(said: Record<string, unknown>, nonce: string | undefined): void {
    const { issuer, clientId } = this.client;
    const expires = said['exp'];
    const isFine =
      said['iss'] === issuer &&
      listed(said['aud']).includes(clientId) &&
      (said['azp'] ?? clientId) === clientId &&
      typeof expires === 'number' &&
      expires > Date.now() / 1000 - LATE_S &&
      (nonce === undefined || said['nonce'] === nonce);
    if (!isFine) throw new Refusal(`${hostOf(this.client)} gave an ID token that is not for this sign-in`);
  }
}

/** The issuer's host, which a user reads. */
export function hostOf({ issuer }: Client): string {
  return new URL(checkedIssuer(issuer)).host;
}

/** The issuer itself, if it is an address that a user can read and nobody can imitate. */
function checkedIssuer(issuer: string): string {
  if (!ADDRESS.test(issuer) || issuer.includes('?') || !isPrivate(issuer)) {
    throw new Refusal(`The server names an issuer that is no https address: ${shown(issuer)}`);
  }
  return issuer;
}

function isPrivate(url: string): boolean {
  return url.startsWith('https:') || isLoopback(url);
}

function isLoopback(url: string): boolean {
  return /^(localhost|127(\.\d+){3})$/.test(new URL(url).hostname);
}

async function ask(url: string, form?: URLSearchParams): Promise<Record<string, unknown>> {
  const { host } = new URL(url);
  let answer: Response;
  let found: any;
  try {
    answer = await fetch(url, {
      method: form ? 'POST' : 'GET',
      headers: { accept: 'application/json' },
      credentials: 'omit',
      redirect: 'error',
      cache: 'no-store',
      referrerPolicy: 'no-referrer',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(form && { body: form }),
    });
    found = await answer.json();
  } catch {
    throw new SessionError('unreachable', `${host} does not answer this page`);
  }
  if (answer.status >= 500) throw new SessionError('unreachable', `${host} answers with HTTP ${answer.status}`);
  if (!answer.ok) throw new Refusal(`${host} refused: ${shown(found?.error ?? answer.status)} ${shown(found?.error_description ?? '')}`.trimEnd());
  if (typeof found !== 'object' || found === null) throw new Refusal(`${host} does not answer as documented`);
  return found;
}

function listed(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [value];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function shown(value: unknown): string {
  return String(value).slice(0, 200);
}
