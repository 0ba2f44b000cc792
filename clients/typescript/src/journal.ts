import { loaded } from "./loaded.ts";
import type { ToolResultFrame } from "./protocol.ts";

/** The fields of a `tool_result` that say how a call ended. */
export type Outcome = Pick<ToolResultFrame, "result" | "error">;

/** What the journal knows about a call that is about to be executed. */
export type Claim =
  /** Not executed before, and now this client's. */
  | { state: "new" }
  /** Executed before. */
  | { state: "finished"; outcome: Outcome }
  /** Another client executes it. */
  | { state: "running" }
  /** Its client died before it had an outcome. */
  | { state: "interrupted" };

/** A call that the server is not known to have settled. */
export interface JournalEntry {
  callId: string;
  seq: number;
  outcome?: Outcome;
  /** Whether its client died before it had an outcome. */
  interrupted: boolean;
}

/**
 * A record of executed calls: before a call is executed, the journal says that it has started; before its result is
 * sent, the journal has the result. So no crash makes a client execute a call twice, or lose a result. Several clients
 * may share a journal. Every method rejects if the journal cannot be read or written; that ends the session.
 */
export interface Journal {
  /** Record that a call starts, unless it has started before. Execute it only if the answer is `new`. */
  begin(callId: string, seq: number): Promise<Claim>;
  /** Record a call's outcome, unless it has one. Gives the outcome that counts. */
  finish(callId: string, outcome: Outcome): Promise<Outcome>;
  /** Record that the server has settled a call, so that its result need not be sent again. */
  settle(callId: string): Promise<void>;
  /** The calls that the server is not known to have settled, oldest first. */
  unsettled(): Promise<JournalEntry[]>;
  /** The `seq` from which the session can be resumed without missing an open call; 0 if there is none. */
  position(): Promise<number>;
  setPosition(seq: number): Promise<void>;
  /** Keep what the user has decided under a name, in place of what was there. Without: it ends with the client. */
  decide?(name: string, decision: string): Promise<void>;
  decided?(name: string): Promise<string | undefined>;
  /** Forget the session: the server has another one with this id. */
  forget(): Promise<void>;
  /** Calls of this client that have no outcome count as interrupted from now on. */
  close(): Promise<void>;
}

/** Opens the journal of one session; `scope` tells the sessions of all servers and users apart. */
export type OpenJournal = (scope: string) => Promise<Journal>;

const memory = loaded(() => import("./memory.ts"));
const indexedDb = loaded(() => import("./indexeddb.ts"));

/** A journal that ends with the page or process: a call is not executed twice while that lives. */
export function memoryJournal(): OpenJournal {
  const scopes = new Map();
  return async (scope) => (await memory()).openMemory(scopes, scope);
}

/**
 * A journal in IndexedDB, shared by the pages and workers of an origin. Each holds a lock (Web Locks) while it lives, so
 * that the others can tell a call that is being executed from one whose page is gone. Where there are no Web Locks,
 * such a call counts as interrupted.
 */
export function indexedDbJournal(name = "codelab"): OpenJournal {
  return async (scope) => (await indexedDb()).openIndexedDb(name, scope);
}
