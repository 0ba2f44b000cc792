import { SessionError } from '@codelab/client';

/** What `GET /client-config` tells a page before anybody has signed in (docs/rest.md). */
export interface ClientConfig {
  websocket: string;
  auth: { mode: 'none' | 'jwt'; issuer?: string; client_id?: string; audience?: string };
}

const TRIES = 4;

/** Ask the server that the page is from. Others may ask at the same time, so a refusal is tried again. Throws a SessionError. */
export async function readConfig(): Promise<ClientConfig> {
  for (let tried = 1; ; tried++) {
    const answer = await fetch('/client-config', { credentials: 'omit', redirect: 'error', cache: 'no-store' }).catch((error: Error) => {
      throw new SessionError('unreachable', error.message);
    });
    if (answer.ok) return answer.json();
    if (tried === TRIES || (answer.status !== 429 && answer.status < 500)) {
      throw new SessionError('unreachable', `/client-config was answered with HTTP ${answer.status}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** tried * (0.5 + Math.random())));
  }
}

/** The WebSocket's address, with `{session_id}` in it. */
export function socketOf({ websocket }: ClientConfig): string {
  return websocket.startsWith('/') ? location.origin.replace(/^http/, 'ws') + websocket : websocket;
}
