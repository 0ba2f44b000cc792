import { signal } from '@preact/signals';
import type { WireEntry } from '@codelab/client';

export interface Row extends WireEntry {
  n: number;
  seq?: number | undefined;
  type: string;
}

/** Rows that are kept; the oldest are forgotten. */
const MOST = 50_000;

/** What went over the wire of one session, in time order. */
export class FrameLog {
  readonly version = signal(0);
  rows: Row[] = [];
  bytes = 0;
  gaps = 0;
  repeats = 0;
  connections = 0;
  #next = 1;
  #queued = false;

  add(entry: WireEntry): void {
    const type = typeof entry.frame?.['type'] === 'string' ? entry.frame['type'] : entry.kind;
    const seq = entry.kind === 'in' && typeof entry.frame?.['seq'] === 'number' ? entry.frame['seq'] : undefined;
    this.rows.push({ ...entry, n: this.#next++, type, seq });
    this.bytes += entry.bytes;
    if (entry.fate === 'repeat') this.repeats++;
    if (entry.fate === 'early') this.gaps++;
    if (entry.kind === 'open') this.connections++;
    if (this.rows.length > MOST) this.rows = this.rows.slice(-MOST + 1000);
    this.#tell();
  }

  clear(): void {
    this.rows = [];
    this.bytes = this.gaps = this.repeats = this.connections = 0;
    this.version.value++;
  }

  /** At most once a picture of the screen, however many frames come. */
  #tell(): void {
    if (this.#queued) return;
    this.#queued = true;
    requestAnimationFrame(() => {
      this.#queued = false;
      this.version.value++;
    });
  }
}
