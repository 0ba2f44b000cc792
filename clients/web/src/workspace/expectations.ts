import { ToolError } from '@codelab/client';
import type { Files } from './files.ts';
import { names } from './paths.ts';
import { parsed } from './patches.ts';

/** What is at each path, as a text that differs when it does; null stands for nothing. */
export type View = ReadonlyMap<string, string | null>;

/** A file is not what a call was to change. Nothing was changed. */
export class Changed extends ToolError {
  readonly why: string;

  constructor(why: string) {
    super('EXECUTION_FAILED', `${why}: read it again. Nothing was changed`);
    this.why = why;
  }
}

/** The fingerprint of a directory begins so. */
const DIRECTORY = 'directory';
/** Stands for what is not known, and equals nothing. */
const UNKNOWN = 'unknown';

/**
 * What the model has read of the folder, and what the user has seen: a call changes a file only if it still is that.
 * Changes by the session's own calls do not count. It is lost with the page; then the model has to read again.
 */
export class Expectations {
  readonly #known = new Map<string, string | null>();
  readonly #made = new Map<string, [string | null, string | null][]>();
  readonly #shown = new Map<string, View>();

  /** The model was given a file. */
  read(path: string, now: string): void {
    this.#known.set(normal(path), now);
  }

  /** A call has changed what is at a path. */
  made(path: string, before: string | null, after: string | null): void {
    const at = normal(path);
    this.#made.set(at, [...(this.#made.get(at) ?? []), [before, after]]);
    for (const known of [...this.#known.keys()]) if (`${known}/`.startsWith(`${at}/`)) this.#known.delete(known);
    if (after !== null) this.#known.set(at, after);
  }

  /** The user sees a call; `before` and `after` were looked at before and after that was worked out. */
  shown(callId: string, before: View, after: View): void {
    this.#shown.set(callId, new Map([...before].map(([path, seen]) => [path, after.get(path) === seen ? seen : UNKNOWN])));
  }

  wasShown(callId: string): boolean {
    return this.#shown.has(callId);
  }

  /**
   * Throws Changed if the user has seen the call with another file; and if nobody has seen it, and its content would be
   * lost, a ToolError unless the model knows the content.
   */
  check(callId: string, path: string, now: string | null, loses: boolean): void {
    const at = normal(path);
    const view = this.#shown.get(callId);
    if (view) {
      if (!this.#leads(at, view.has(at) ? view.get(at)! : UNKNOWN, now)) throw new Changed(`${path} was changed after it was shown to the user`);
    } else if (loses && now !== null && this.#known.get(at) !== now) {
      const why = this.#known.has(at) ? 'was changed since you read it: read it again' : 'exists: read it first';
      throw new ToolError('EXECUTION_FAILED', `${path} ${why}. Nothing was changed`);
    }
  }

  #leads(path: string, then: string | null, now: string | null): boolean {
    if (then === now) return true;
    if (then?.startsWith(DIRECTORY) && now?.startsWith(DIRECTORY)) return differing(then, now).every((below) => this.#made.has(below));
    for (const [before, after] of [...(this.#made.get(path) ?? [])].reverse()) {
      if (after !== now) continue;
      if (before === then) return true;
      now = before;
    }
    return false;
  }
}

/** What is at a path: a digest of a file's content; the names, sizes and times of what is in a directory. */
export async function fingerprint(folder: Files, path: string): Promise<string | null> {
  let found: Awaited<ReturnType<Files['stat']>>;
  try {
    found = await folder.stat(path);
  } catch (error) {
    if (error instanceof ToolError && error.code === 'FILE_NOT_FOUND') return null;
    throw error;
  }
  if (found.type === 'file') return ofBytes(await folder.bytes(path));
  const entries: string[] = [];
  for await (const item of folder.walk(path, true)) {
    const { size, modified } = await folder.stat(item.path);
    entries.push(JSON.stringify([item.path, item.type, size, modified]));
  }
  return [DIRECTORY, ...entries].join('\n');
}

export async function ofBytes(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return `file ${[...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

export async function ofText(text: string | null): Promise<string | null> {
  return text === null ? null : ofBytes(new TextEncoder().encode(text));
}

/** What a call would change, as it is now. */
export async function viewOf(folder: Files, tool: string, args: Record<string, unknown>): Promise<View> {
  const found = new Map<string, string | null>();
  for (const path of touched(tool, args)) {
    try {
      found.set(normal(path), await fingerprint(folder, path));
    } catch {
      found.set(normal(path), UNKNOWN);
    }
  }
  return found;
}

/** The paths of which two fingerprints of a directory say something different. */
function differing(one: string, other: string): string[] {
  const [before, after] = [one.split('\n').slice(1), other.split('\n').slice(1)];
  const changed = [...before.filter((line) => !after.includes(line)), ...after.filter((line) => !before.includes(line))];
  return changed.map((line) => (JSON.parse(line) as [string])[0]);
}

function touched(tool: string, args: Record<string, unknown>): string[] {
  try {
    if (tool === 'apply_patch') return parsed(String(args['diff'] ?? '')).flatMap(({ from, to }) => [from, to].filter((one) => one !== null));
  } catch {
    return [];
  }
  const given = { write_file: ['path'], edit_file: ['path'], delete_file: ['path'], move_file: ['from', 'to'] }[tool] ?? [];
  return given.map((name) => String(args[name] ?? ''));
}

function normal(path: string): string {
  try {
    return names(path).join('/');
  } catch {
    return path;
  }
}
