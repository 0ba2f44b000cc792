import { sessionIn } from '../shell/address.ts';
import { type Client, hostOf, type Login, Provider, Refusal } from './provider.ts';

const BEGUN = 'codelab.signing-in';

/** What this tab remembers of the sign-in that it has begun. */
interface Begun {
  state: string;
  nonce: string;
  verifier: string;
  client: Client;
  /** Where the user was. */
  hash: string;
}

/** Lead the user to the provider, which leads them back to `/` with a code. */
export async function begin(client: Client): Promise<void> {
  if (!crypto.subtle) throw new Refusal('Browsers let nobody sign in over http, which is not encrypted');
  const provider = await Provider.discover(client);
  const begun: Begun = { state: random(), nonce: random(), verifier: random(), client, hash: location.hash };
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(begun.verifier));
  const where = new URL(provider.endpoint('authorization_endpoint'));
  const asked = {
    response_type: 'code',
    client_id: client.clientId,
    redirect_uri: redirectAddress(),
    scope: provider.scope,
    state: begun.state,
    nonce: begun.nonce,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: 'S256',
    ...(client.audience && { audience: client.audience }),
  };
  for (const [name, value] of Object.entries(asked)) where.searchParams.set(name, value);
  sessionStorage.setItem(BEGUN, JSON.stringify(begun));
  location.assign(where.href);
}

/**
 * The provider's answer in the page's address, if there is one. It leaves the address at once, and what the tab
 * remembers with it, so that neither a reload nor the history can use the answer a second time.
 */
export function takeAnswer(): { answer: URLSearchParams; begun: Begun | undefined } | undefined {
  const answer = new URLSearchParams(location.search);
  if (!answer.has('state') && !answer.has('code')) return undefined;
  const begun = take();
  const isOurs = begun !== undefined && answer.getAll('state').length === 1 && answer.get('state') === begun.state;
  const id = isOurs ? sessionIn(begun.hash) : undefined;
  history.replaceState(null, '', `/${id ? `#/s/${id}` : ''}`);
  return { answer, begun: isOurs ? begun : undefined };
}

/** Exchange an answer's code for a login. `client` is what the server names now. */
export async function finish({ answer, begun }: NonNullable<ReturnType<typeof takeAnswer>>, client: Client): Promise<Login> {
  if (!begun || JSON.stringify(begun.client) !== JSON.stringify(client)) {
    throw new Refusal('This is not the answer that this tab waits for');
  }
  const provider = await Provider.discover(client);
  // RFC 9207: the code of one provider must not be given to another.
  if ((answer.has('iss') || provider.namesItself) && answer.get('iss') !== client.issuer) {
    throw new Refusal(`The answer is not of ${hostOf(client)}`);
  }
  const code = answer.get('code');
  if (!code) {
    const why = `${answer.get('error') ?? ''} ${answer.get('error_description') ?? ''}`.slice(0, 300);
    throw new Refusal(`${hostOf(client)} refused: ${why}`);
  }
  const given = await provider.post('token_endpoint', {
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectAddress(),
    code_verifier: begun.verifier,
  });
  return provider.login(given, { nonce: begun.nonce });
}

/** Always the page itself: nothing in an address can lead an answer elsewhere. */
function redirectAddress(): string {
  return `${location.origin}/`;
}

function take(): Begun | undefined {
  const kept = sessionStorage.getItem(BEGUN);
  sessionStorage.removeItem(BEGUN);
  return kept ? JSON.parse(kept) : undefined;
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
