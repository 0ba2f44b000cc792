import type { Claim, Journal, JournalEntry, Outcome } from "./journal.ts";

/** The journal of one scope, among those of a page or process. */
export function openMemory(scopes: Map<string, Memory>, scope: string): Journal {
  const memory = scopes.get(scope) ?? { calls: new Map(), decisions: new Map(), position: 0 };
  scopes.set(scope, memory);
  return new MemoryJournal(memory);
}

interface Memory {
  calls: Map<string, { seq: number; owner: MemoryJournal; outcome?: Outcome; settled?: boolean }>;
  decisions: Map<string, string>;
  position: number;
}

class MemoryJournal implements Journal {
  readonly #memory: Memory;
  #closed = false;

  constructor(memory: Memory) {
    this.#memory = memory;
  }

  async begin(callId: string, seq: number): Promise<Claim> {
    const found = this.#memory.calls.get(callId);
    if (found?.outcome) return { state: "finished", outcome: found.outcome };
    if (found) return { state: found.owner.#closed ? "interrupted" : "running" };
    this.#memory.calls.set(callId, { seq, owner: this });
    return { state: "new" };
  }

  async finish(callId: string, outcome: Outcome): Promise<Outcome> {
    const found = this.#memory.calls.get(callId);
    return found ? (found.outcome ??= outcome) : outcome;
  }

  async settle(callId: string): Promise<void> {
    const found = this.#memory.calls.get(callId);
    if (found) found.settled = true;
  }

  async unsettled(): Promise<JournalEntry[]> {
    return [...this.#memory.calls]
      .filter(([, { settled }]) => !settled)
      .map(([callId, { seq, outcome, owner }]) => ({
        callId,
        seq,
        interrupted: !outcome && owner.#closed,
        ...(outcome && { outcome }),
      }))
      .sort((one, other) => one.seq - other.seq);
  }

  async position(): Promise<number> {
    return this.#memory.position;
  }

  async setPosition(seq: number): Promise<void> {
    this.#memory.position = seq;
  }

  async decide(name: string, decision: string): Promise<void> {
    this.#memory.decisions.set(name, decision);
  }

  async decided(name: string): Promise<string | undefined> {
    return this.#memory.decisions.get(name);
  }

  async forget(): Promise<void> {
    this.#memory.calls.clear();
    this.#memory.decisions.clear();
    this.#memory.position = 0;
  }

  async close(): Promise<void> {
    this.#closed = true;
  }
}
