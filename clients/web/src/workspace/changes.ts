import { ToolError } from '@codelab/client';
import type { Folder } from './folder.ts';
import { applied, parsed } from './patches.ts';

/** A file before and after a call; null stands for no file. */
export interface Change {
  path: string;
  before: string | null;
  after: string | null;
}

/** What a call that writes would change now. Throws a ToolError if it cannot be executed. */
export async function changesOf(folder: Folder, tool: string, args: Record<string, unknown>): Promise<Change[]> {
  const path = String(args['path'] ?? '');
  switch (tool) {
    case 'write_file':
      return [{ path, before: await present(folder, path), after: String(args['content'] ?? '') }];
    case 'edit_file': {
      const { content } = await folder.read(path);
      return [{ path, before: content, after: edited(content, args['edits']) }];
    }
    case 'apply_patch':
    case 'apply_patch_review':
      return patched(folder, String(args['diff'] ?? ''));
    default:
      return [];
  }
}

/** Make changes: all of them, or none if one fails. */
export async function make(folder: Folder, changes: readonly Change[]): Promise<void> {
  const done: Change[] = [];
  try {
    for (const change of changes) {
      done.push(change);
      if (change.after === null) await folder.remove(change.path);
      else await folder.write(change.path, change.after);
    }
  } catch (error) {
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

async function patched(folder: Folder, diff: string): Promise<Change[]> {
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

/** A text with exact replacements, all of which refer to it as it was. */
export function edited(content: string, edits: unknown): string {
  if (!Array.isArray(edits) || !edits.length) throw new ToolError('INVALID_ARGUMENTS', 'edits must be a list');
  const isCrlf = content.includes('\n') && !/(^|[^\r])\n/.test(content);
  const ended = (text: string) => (isCrlf ? text.replace(/\r?\n/g, '\r\n') : text);
  const found: { start: number; end: number; fresh: string }[] = [];
  for (const [index, edit] of (edits as Record<string, unknown>[]).entries()) {
    if (typeof edit?.['old'] !== 'string' || typeof edit['new'] !== 'string' || !edit['old']) {
      throw new ToolError('INVALID_ARGUMENTS', `Edit ${index + 1} needs the texts old and new`);
    }
    const [old, fresh] = [ended(edit['old']), ended(edit['new'])];
    const places: number[] = [];
    for (let at = content.indexOf(old); at >= 0; at = content.indexOf(old, at + old.length)) places.push(at);
    if (!places.length) {
      throw new ToolError('PATCH_APPLY_FAILED', `Edit ${index + 1}: the file does not have this text.${closest(content, old)}`);
    }
    // Overlapping itself, as "aa" does in "aaa", it occurs more often than it can be replaced.
    const isOnce = places.length === 1 && content.indexOf(old, places[0]! + 1) < 0;
    if (!isOnce && edit['replace_all'] !== true) {
      const lines = places.slice(0, 5).map((place) => content.slice(0, place).split('\n').length);
      throw new ToolError('PATCH_APPLY_FAILED', `Edit ${index + 1}: the file has this text more than once (lines ${lines.join(', ')}); add lines around it`);
    }
    found.push(...places.map((start) => ({ start, end: start + old.length, fresh })));
  }
  found.sort((one, other) => one.start - other.start);
  let [text, done] = ['', 0];
  for (const { start, end, fresh } of found) {
    if (start < done) throw new ToolError('PATCH_APPLY_FAILED', 'Two edits overlap');
    text += content.slice(done, start) + fresh;
    done = end;
  }
  return text + content.slice(done);
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

async function present(folder: Folder, path: string): Promise<string | null> {
  return (await folder.has(path)) ? (await folder.read(path)).content : null;
}
