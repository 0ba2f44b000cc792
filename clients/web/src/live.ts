import { effect, signal } from '@preact/signals';
import { type Attachment, Conversation as Source, createSession, forkBefore, newSessionId, type Session, SessionError, type SessionEvent, type SessionSummary } from '@codelab/client';
import { Conversation } from './conversation/conversation.ts';
import { FrameLog } from './inspector/log.ts';
import { noted } from './notes/kept.ts';
import { dialogue } from './workspace/dialogue.ts';
import { Expectations } from './workspace/expectations.ts';
import { lastChanged, openedFolder, version } from './workspace/open.ts';
import { tools } from './workspace/tools.ts';
import { forgetPushes } from './push/subscription.ts';
import { sessionIn } from './shell/address.ts';
import { type ClientConfig, readConfig, socketOf } from './signin/config.ts';
import * as login from './signin/login.ts';
import { stored } from './shell/stored.ts';

export type LinkState =
  | { state: 'connecting' | 'online' }
  | { state: 'offline' | 'busy' | 'limited'; until: number }
  | { state: 'ended'; error?: unknown; unauthorized: boolean };

/** The open session, with what it has said and what went over the wire. */
export interface Live {
  session: Session;
  conversation: Conversation;
  log: FrameLog;
  /** What the model knows of the folder, and the user has seen of its calls. */
  expectations: Expectations;
  /** The notes that the server has, as JSON; empty if that is not known. */
  told: string;
}

export const live = signal<Live | undefined>(undefined);
export const link = signal<LinkState>({ state: 'connecting' });
/** Whether this page executes calls, or leaves them to another client such as a terminal. */
export const executes = stored('executes', true, (value) => value !== false);
/** Whether sessions of this browser may have notes. */
const hasToldNotes = stored('told notes', false, (value) => value === true);
/** Tells the list of sessions to look again. */
export const sessionsChanged = signal(0);

const NO_NOTES = '[]';
/** Pages of the list that are asked for at once, if the first ones have only sessions without a message. */
const MOST_PAGES = 5;

let opening = 0;
let config: ClientConfig | undefined;

/** Ask the server where to connect and who signs users in, and open the session that the address names. */
export async function start(): Promise<void> {
  link.value = { state: 'connecting' };
  try {
    const told = await readConfig();
    await login.start(told);
    config = told;
  } catch (error) {
    ended(error);
    return;
  }
  await open(sessionOfAddress());
}

/** Go on with a token that the user has pasted. */
export function useToken(value: string): void {
  login.paste(value);
  void open(sessionOfAddress());
}

/** Leave the session, and forget who the user was. */
export async function signOut(): Promise<void> {
  opening++;
  const before = live.value;
  live.value = undefined;
  link.value = { state: 'ended', unauthorized: true };
  void before?.session.close();
  if (before) void forgetPushes(before.session.rest).catch(() => {}); // with the token that is still there
  await login.signOut().catch(() => {}); // the provider may be out of reach
}

/**
 * The session that the address names, so that a reload and a second window show the same one. One without a message has no
 * address: the entry of the tab's history holds it, so that a reload does.
 */
export function sessionOfAddress(): string | undefined {
  const held: unknown = history.state?.session;
  return sessionIn(location.hash) ?? (location.hash || typeof held !== 'string' ? undefined : sessionIn(`#/s/${held}`));
}

/** Go to a session, without an id to a new one. The browser's way back leads to the one before. */
export function go(id?: string): void {
  const here = live.value;
  const isThere = here && (id ? here.session.sessionId === id : !here.conversation.messages.value.length && !location.hash);
  if (isThere && link.value.state !== 'ended') return;
  history.pushState(null, '', id ? `/#/s/${id}` : '/');
  void open(id);
}

/** The address has changed, by the user or on the way back or forward. */
export function follow(): void {
  const id = sessionOfAddress();
  if (!id || id !== live.value?.session.sessionId) void open(id);
}

/** The session has a message: give it its address, unless the user has gone elsewhere. */
function name(id: string): void {
  if (location.hash || history.state?.session !== id) return;
  history.replaceState(null, '', `/#/s/${id}`);
  sessionsChanged.value++;
}

/** Leave the open session, if any, and open another; without an id, a new one, in place of what the address names. */
export async function open(id?: string): Promise<void> {
  if (!config) return start();
  const sessionId = id ?? newSessionId();
  const number = ++opening;
  const before = live.value;
  live.value = undefined;
  link.value = { state: 'connecting' };
  if (sessionOfAddress() !== sessionId) history.replaceState({ session: sessionId }, '', '/');
  void before?.session.close();
  if (config.auth.mode === 'jwt' && !login.hasToken()) {
    link.value = { state: 'ended', unauthorized: true };
    return;
  }
  const log = new FrameLog();
  const expectations = new Expectations();
  const { supported, tools: executed } = tools({
    expectations,
    folder: openedFolder,
    dialogue,
    changed: (paths, made) => {
      lastChanged.value = paths;
      version.value++;
      if (made) conversation.executed(made.callId, made.changes, made.folder);
    },
  });
  const create = () => createSession({
    url: socketOf(config!),
    restUrl: location.origin,
    sessionId,
    token: login.token,
    tools: executed,
    // The page itself comes from the server, so its word that another window has approved a call is enough.
    decidedElsewhere: true,
    viewer: !executes.value,
    client: { name: 'codelab-web', version: '0.2.0' },
    // The server executes `delegate`: it lets the agent have subagents, whose calls come here too.
    capabilities: { tools_supported: ['delegate', ...supported], drafts: true },
    hello: { environment: { os: 'none: a page in a browser', shell: 'none: no commands can be run' } },
    // The whole log: its frames tell what the history does not, such as how calls ended.
    lastSeq: 0,
    onWire: (entry) => log.add(entry),
    onEvent: (event) => number === opening && take(event, sessionId),
  });
  const source = new Source(create, id);
  const conversation = new Conversation(source);
  const { session } = source;
  try {
    if (id) await source.history();
    if (number !== opening) return;
    if (source.state.messages.length) name(sessionId);
    live.value = { session, conversation, log, expectations, told: id && hasToldNotes.value ? '' : NO_NOTES };
    await session.open();
    sessionsChanged.value++;
  } catch (error) {
    if (number === opening) ended(error);
  }
}

function take(event: SessionEvent, sessionId: string): void {
  switch (event.type) {
    case 'online':
      link.value = { state: 'online' };
      break;
    case 'offline':
    case 'busy': {
      const isLimited = event.type === 'offline' && event.error?.code === 'RATE_LIMITED';
      link.value = { state: isLimited ? 'limited' : event.type, until: Date.now() + event.retryInMs };
      break;
    }
    case 'ended':
      ended(event.error);
      break;
    case 'user_message':
      name(sessionId);
      break;
    case 'turn_end':
      sessionsChanged.value++;
      break;
    default:
  }
}

function ended(error: unknown): void {
  const unauthorized = error instanceof SessionError && error.kind === 'unauthorized';
  link.value = { state: 'ended', error, unauthorized };
}

/** Send a message; what becomes of it shows in the conversation. */
export function send(text: string, attachments: readonly Attachment[]): void {
  tellNotes(live.value!);
  live.value!.conversation.source.prompt(text, attachments.length ? { attachments } : {});
}

/**
 * Have the server know the notes as they are, before a message: whoever looks at a session that another client works in does
 * not replace what that one has told. Requests and messages reach the server in their order.
 */
function tellNotes(here: Live): void {
  if (!executes.value) return; // The server takes them from who executes.
  const instructions = noted();
  const told = JSON.stringify(instructions);
  if (told === here.told) return;
  here.told = told;
  hasToldNotes.value = true;
  here.session.request({ type: 'hello', instructions }).catch((error: Error) => {
    here.told = '';
    here.conversation.failed(error);
  });
}

/**
 * Send a message in place of an earlier one: in a fork of the session that ends before it, so that nothing is lost. Throws an
 * Error if that cannot be made. `before` is done when there is a fork, before the message is sent; the user reads there what it gives.
 */
export async function sendInstead(
  messageId: string,
  text: string,
  attachments: readonly Attachment[],
  before?: () => Promise<string>,
): Promise<void> {
  const { rest, sessionId } = live.value!.session;
  const forkId = await forkBefore(rest, sessionId, messageId);
  if (live.value?.session.sessionId !== sessionId) return; // The user has gone elsewhere.
  const told = await before?.();
  history.pushState(null, '', `/#/s/${forkId}`);
  await open(forkId);
  if (live.value?.session.sessionId !== forkId) return;
  if (told) live.value.conversation.failed(new Error(told));
  send(text, attachments);
}

/** The sessions of the user that have a message, newest first: the first one gives a session its title. */
export async function listSessions(cursor?: string): Promise<{ sessions: SessionSummary[]; next_cursor?: string | null }> {
  const from = live.value;
  if (!from) return { sessions: [] };
  for (let asked = 1; ; asked++) {
    const page = await from.session.rest.sessions({ limit: 50, ...(cursor && { cursor }) });
    const sessions = page.sessions.filter((one) => one.title !== '');
    if (sessions.length || !page.next_cursor || asked === MOST_PAGES) return { ...page, sessions };
    cursor = page.next_cursor;
  }
}

// A new choice of who executes needs another connection.
let known = executes.value;
effect(() => {
  if (executes.value === known) return;
  known = executes.value;
  const from = live.peek();
  if (from) void open(from.session.sessionId);
});
