import { ToolError } from '@codelab/client';
import { Changed } from './expectations.ts';
import type { Files } from './files.ts';
import { hasOnlyCrlf, MixedEnds } from './line_ends.ts';
import { applied, parsed } from './patches.ts';
import { nearly } from './whitespace.ts';

/** A file before and after a call; null stands for no file. `matched`: which lines an edit took for its text. */
export interface Change {
  path: string;
  before: string | null;
  after: string | null;
  matched?: string;
}

/** What a call that writes would change now. Throws a ToolError if it cannot be executed. */
export async function changesOf(folder: Files, tool: string, args: Record<string, unknown>): Promise<Change[]> {
  const path = String(args['path'] ?? '');
  switch (tool) {
    case 'write_file': {
      const before = await present(folder, path);
      return [{ path, before, after: kept(String(args['content'] ?? ''), before) }];
    }
    case 'edit_file': {
      const { content } = await folder.read(path);
      const { text, matched } = edit(content, args['edits']);
      return [{ path, before: content, after: text, ...(matched && { matched }) }];
    }
    case 'apply_patch':
    case 'apply_patch_review':
      return patched(folder, String(args['diff'] ?? ''));
    default:
      return [];
  }
}

/** A new content with the byte order mark and, if all its lines end otherwise, the line ends of the old one. */
export function kept(content: string, before: string | null): string {
  if (before === null) return content;
  const ended = hasOnlyCrlf(before) && !content.includes('\r') ? content.replaceAll('\n', '\r\n') : content;
  return before.startsWith('\ufeff') && !ended.startsWith('\ufeff') ? `\ufeff${ended}` : ended;
}

/** Make changes: all of them, or none if one fails. Throws Changed if a file is not what it was before its change. */
export async function make(folder: Files, changes: readonly Change[]): Promise<void> {
  const done: Change[] = [];
  try {
    for (const change of changes) {
      const check = async () => {
        const now = await present(folder, change.path);
        // A new file is there, and empty, before it is written.
        if (now !== change.before && !(change.before === null && now === '')) throw new Changed(`${change.path} was changed meanwhile`);
      };
      done.push(change);
      await check();
      if (change.after === null) await folder.remove(change.path);
      else await folder.write(change.path, change.after, check);
    }
  } catch (error) {
    if (error instanceof Changed) done.pop(); // What somebody else has written there stays.
    for (const change of done.reverse()) {
      try {
        if (change.before !== null) await folder.write(change.path, change.before);
        else if (await folder.has(change.path)) await folder.remove(change.path);
      } catch {
        // The error of the change itself is the one to tell.
      }
    }
    throw error;
  }
}

async function patched(folder: Files, diff: string): Promise<Change[]> {
  const changes = new Map<string, Change>();
  const now = async (path: string) => changes.get(path)?.after ?? (changes.has(path) ? null : present(folder, path));
  const set = async (path: string, after: string | null) => {
    const before = changes.has(path) ? changes.get(path)!.before : await present(folder, path);
    changes.set(path, { path, before, after });
  };
  for (const file of parsed(diff)) {
    const before = file.from === null ? '' : await now(file.from);
    if (before === null) throw new ToolError('FILE_NOT_FOUND', `File not found: ${file.from}`);
    if (file.to !== null && file.to !== file.from && (await now(file.to)) !== null) {
      throw new ToolError('PATCH_APPLY_FAILED', `${file.to} exists`);
    }
    const after = applied(file, before);
    if (file.to === null && after) throw new ToolError('PATCH_APPLY_FAILED', `${file.from} has more than the diff deletes`);
    const isCopy = file.header.some((line) => line.startsWith('copy from '));
    if (file.from !== null && file.from !== file.to && !isCopy) await set(file.from, null);
    if (file.to !== null) await set(file.to, after);
  }
  return [...changes.values()];
}

/** A text with replacements, all of which refer to it as it was. */
export function edited(content: string, edits: unknown): string {
  return edit(content, edits).text;
}

/** The same, and which lines differed from what was to be replaced in whitespace. */
function edit(content: string, edits: unknown): { text: string; matched: string } {
  if (!Array.isArray(edits) || !edits.length) throw new ToolError('INVALID_ARGUMENTS', 'edits must be a list');
  const isCrlf = hasOnlyCrlf(content);
  const mixed = !isCrlf && content.includes('\r\n') ? new MixedEnds(content) : undefined;
  const ended = (text: string) => (isCrlf ? text.replace(/\r?\n/g, '\r\n') : text);
  const found: { start: number; end: number; fresh: string }[] = [];
  const near: string[] = [];
  for (const [index, edit] of (edits as Record<string, unknown>[]).entries()) {
    if (typeof edit?.['old'] !== 'string' || typeof edit['new'] !== 'string' || !edit['old']) {
      throw new ToolError('INVALID_ARGUMENTS', `Edit ${index + 1} needs the texts old and new`);
    }
    const [old, fresh] = [ended(edit['old']), ended(edit['new'])];
    const ends = old.includes('\r') ? undefined : mixed;
    const text = ends?.plain ?? content;
    const places: number[] = [];
    for (let at = text.indexOf(old); at >= 0; at = text.indexOf(old, at + old.length)) places.push(at);
    const place = places.length || edit['replace_all'] === true ? undefined : nearly(text, old, fresh);
    if (place) {
      const [start, end] = ends ? [ends.place(place.start), ends.place(place.end)] : [place.start, place.end];
      found.push({ start, end, fresh: ends ? ends.ended(place.fresh, start, end) : place.fresh });
      const lines = place.first === place.last ? `line ${place.first}` : `lines ${place.first}-${place.last}`;
      near.push(`${edits.length > 1 ? `edit ${index + 1}: ` : ''}${lines}, whitespace differs`);
      continue;
    }
    if (!places.length) {
      throw new ToolError('PATCH_APPLY_FAILED', `Edit ${index + 1}: the file does not have this text.${closest(content, old)}`);
    }
    // Overlapping itself, as "aa" does in "aaa", it occurs more often than it can be replaced.
    const isOnce = places.length === 1 && text.indexOf(old, places[0]! + 1) < 0;
    if (!isOnce && edit['replace_all'] !== true) {
      const lines = places.slice(0, 5).map((place) => text.slice(0, place).split('\n').length);
      throw new ToolError('PATCH_APPLY_FAILED', `Edit ${index + 1}: the file has this text more than once (lines ${lines.join(', ')}); add lines around it`);
    }
    for (const place of places) {
      const [start, end] = ends ? [ends.place(place), ends.place(place + old.length)] : [place, place + old.length];
      found.push({ start, end, fresh: ends ? ends.ended(fresh, start, end) : fresh });
    }
  }
  found.sort((one, other) => one.start - other.start);
  let [text, done] = ['', 0];
  for (const { start, end, fresh } of found) {
    if (start < done) throw new ToolError('PATCH_APPLY_FAILED', 'Two edits overlap');
    text += content.slice(done, start) + fresh;
    done = end;
  }
  return { text: text + content.slice(done), matched: near.join('; ') };
}

/** The lines that are most like the first line of a text that is missing. */
function closest(content: string, old: string): string {
  const wanted = new Set(old.split('\n').find((line) => line.trim())?.match(/\w+/g) ?? []);
  const scored = content
    .split('\n')
    .map((line, index) => ({ line, index, score: (line.match(/\w+/g) ?? []).filter((word) => wanted.has(word)).length }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .slice(0, 3);
  return scored.length ? ` The closest lines:\n${scored.map(({ line, index }) => `${index + 1}: ${line.trimEnd().slice(0, 200)}`).join('\n')}` : '';
}

async function present(folder: Files, path: string): Promise<string | null> {
  return (await folder.has(path)) ? (await folder.read(path)).content : null;
}
