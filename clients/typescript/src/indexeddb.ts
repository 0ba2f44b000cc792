import { SessionError, messageOf } from "./errors.ts";
import type { Claim, Journal, JournalEntry, Outcome } from "./journal.ts";

/** Settled calls are forgotten after a day, all others after a week: the server waits a day at most for an approval. */
const DAY_MS = 86_400_000;
const LOCK = "codelab-client-";

interface StoredCall {
  scope: string;
  callId: string;
  seq: number;
  owner: string;
  settled: boolean;
  at: number;
  outcome?: Outcome;
  /** Of an entry in the scope of decisions: what was decided. */
  decision?: string;
}

interface StoredPosition {
  scope: string;
  seq: number;
  at: number;
}

/** The journal of one scope in a database. */
export async function openIndexedDb(name: string, scope: string): Promise<Journal> {
  try {
    const journal = new IndexedDbJournal(await openDatabase(name), scope);
    await journal.prepare();
    return journal;
  } catch (error) {
    throw failed(error);
  }
}

class IndexedDbJournal implements Journal {
  readonly #database: IDBDatabase;
  readonly #scope: string;
  readonly #owner = crypto.getRandomValues(new Uint32Array(4)).join("-");
  #release = (): void => {};

  constructor(database: IDBDatabase, scope: string) {
    this.#database = database;
    this.#scope = scope;
    // Another page has a newer version of this client.
    database.onversionchange = () => database.close();
  }

  async prepare(): Promise<void> {
    const { locks } = globalThis.navigator ?? {};
    if (locks) {
      await new Promise<void>((held, fail) => {
        locks
          .request(LOCK + this.#owner, () => {
            held();
            return new Promise<void>((release) => (this.#release = release));
          })
          .catch(fail);
      });
    }
    const now = Date.now();
    await this.#write((calls, positions) => {
      prune(calls, (call: StoredCall) => call.at < now - 7 * DAY_MS || (call.settled && call.at < now - DAY_MS));
      prune(positions, (position: StoredPosition) => position.at < now - 7 * DAY_MS);
    });
  }

  async begin(callId: string, seq: number): Promise<Claim> {
    const { scope } = this.#place(callId);
    const owner = this.#owner;
    let found: StoredCall | undefined;
    await this.#write((calls) => {
      const asked = calls.get([scope, callId]);
      asked.onsuccess = () => {
        found = asked.result as StoredCall | undefined;
        if (!found) calls.add({ scope, callId, seq, owner, settled: false, at: Date.now() } satisfies StoredCall);
      };
    });
    if (!found) return { state: "new" };
    if (found.outcome) return { state: "finished", outcome: found.outcome };
    return { state: (await this.#isAlive(found.owner)) ? "running" : "interrupted" };
  }

  async finish(callId: string, outcome: Outcome): Promise<Outcome> {
    const stored = await this.#change(callId, (call) => {
      call.outcome ??= outcome;
    });
    return stored?.outcome ?? outcome;
  }

  async settle(callId: string): Promise<void> {
    await this.#change(callId, (call) => {
      call.settled = true;
    });
  }

  async unsettled(): Promise<JournalEntry[]> {
    const found = (await this.#all()).filter((call) => !call.settled).sort((one, other) => one.seq - other.seq);
    return Promise.all(
      found.map(async ({ callId, seq, outcome, owner }) => ({
        callId,
        seq,
        ...(outcome && { outcome }),
        interrupted: !outcome && !(await this.#isAlive(owner)),
      })),
    );
  }

  async position(): Promise<number> {
    const found = await this.#read<StoredPosition | undefined>("positions", (store) => store.get(this.#scope));
    return found?.seq ?? 0;
  }

  async setPosition(seq: number): Promise<void> {
    await this.#write((_, positions) => {
      positions.put({ scope: this.#scope, seq, at: Date.now() } satisfies StoredPosition);
    });
  }

  /** Decisions are entries of a scope of their own, because another store would close the pages of older clients. */
  async decide(name: string, decision: string): Promise<void> {
    const entry = { scope: this.#decisions, callId: name, seq: 0, owner: "", settled: false, at: Date.now(), decision };
    await this.#write((calls) => {
      calls.put(entry satisfies StoredCall);
    });
  }

  async decided(name: string): Promise<string | undefined> {
    return (await this.#read<StoredCall | undefined>("calls", (store) => store.get([this.#decisions, name])))?.decision;
  }

  get #decisions(): string {
    return `${this.#scope}#decisions`;
  }

  async forget(): Promise<void> {
    await this.#write((calls, positions) => {
      for (const scope of [this.#scope, this.#decisions]) calls.delete(IDBKeyRange.bound([scope], [scope, []]));
      positions.delete(this.#scope);
    });
  }

  async close(): Promise<void> {
    this.#release();
    this.#database.close();
  }

  #place(callId: string): { scope: string; key: [string, string] } {
    return { scope: this.#scope, key: [this.#scope, callId] };
  }

  async #change(callId: string, change: (call: StoredCall) => void): Promise<StoredCall | undefined> {
    let stored: StoredCall | undefined;
    await this.#write((calls) => {
      const asked = calls.get(this.#place(callId).key);
      asked.onsuccess = () => {
        stored = asked.result as StoredCall | undefined;
        if (!stored) return;
        change(stored);
        calls.put(stored);
      };
    });
    return stored;
  }

  #all(): Promise<StoredCall[]> {
    return this.#read("calls", (store) => store.getAll(IDBKeyRange.bound([this.#scope], [this.#scope, []])));
  }

  async #isAlive(owner: string): Promise<boolean> {
    if (owner === this.#owner) return true;
    const { held = [] } = (await globalThis.navigator?.locks?.query()) ?? {};
    return held.some((lock) => lock.name === LOCK + owner);
  }

  #read<Found>(store: string, ask: (store: IDBObjectStore) => IDBRequest): Promise<Found> {
    return told(
      new Promise((resolve, reject) => {
        const asked = ask(this.#database.transaction(store).objectStore(store));
        asked.onsuccess = () => resolve(asked.result as Found);
        asked.onerror = () => reject(asked.error);
      }),
    );
  }

  #write(work: (calls: IDBObjectStore, positions: IDBObjectStore) => void): Promise<void> {
    return told(
      new Promise((resolve, reject) => {
        const transaction = this.#database.transaction(["calls", "positions"], "readwrite", { durability: "strict" });
        transaction.oncomplete = () => resolve();
        transaction.onabort = transaction.onerror = () => reject(transaction.error);
        work(transaction.objectStore("calls"), transaction.objectStore("positions"));
      }),
    );
  }
}

function openDatabase(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore("calls", { keyPath: ["scope", "callId"] });
      opening.result.createObjectStore("positions", { keyPath: "scope" });
    };
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

function prune<Stored>(store: IDBObjectStore, isOld: (stored: Stored) => boolean): void {
  const walk = store.openCursor();
  walk.onsuccess = () => {
    const cursor = walk.result;
    if (!cursor) return;
    if (isOld(cursor.value as Stored)) cursor.delete();
    cursor.continue();
  };
}

async function told<Found>(work: Promise<Found>): Promise<Found> {
  try {
    return await work;
  } catch (error) {
    throw failed(error);
  }
}

function failed(error: unknown): SessionError {
  return new SessionError("journal", `The journal of executed calls cannot be used: ${messageOf(error)}`);
}
