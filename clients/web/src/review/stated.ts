import type { Change } from '../workspace/changes.ts';
import { parsed } from '../workspace/patches.ts';
import { type Difference, difference, spelledOut } from './difference.ts';

/** What a call says of one file. Of a whole new content, it is not known what of it is new: `content` instead of lines. */
export interface Stated extends Difference {
  path: string;
  content?: string;
  deletes?: boolean;
}

/** Stands between two edits, because their places are not known. */
const BETWEEN = '@@';

/** What a call changes as its arguments say it, without the files' contents. Empty for other calls, and if they say nothing. */
export function statedChanges(tool: string, args: Record<string, unknown>): Stated[] {
  const path = typeof args['path'] === 'string' ? args['path'] : '';
  const nothing = { path, lines: [], notes: [] };
  switch (tool) {
    case 'write_file':
      return typeof args['content'] === 'string' ? [{ ...nothing, content: args['content'] }] : [];
    case 'delete_file':
      return [{ ...nothing, deletes: true }];
    case 'edit_file':
      return Array.isArray(args['edits']) ? [ofEdits(path, args['edits'])] : [];
    case 'apply_patch':
    case 'apply_patch_review':
      return ofPatch(String(args['diff'] ?? ''));
    default:
      return [];
  }
}

function ofEdits(path: string, edits: readonly unknown[]): Stated {
  const found: Stated = { path, lines: [], notes: [] };
  for (const edit of edits) {
    const { old, new: fresh } = (edit ?? {}) as Record<string, unknown>;
    if (typeof old !== 'string' || typeof fresh !== 'string') continue;
    const { lines, notes } = difference({ path, before: old, after: fresh } satisfies Change);
    if (found.lines.length) found.lines.push(BETWEEN);
    // The numbers are those of lines in the edit.
    found.lines.push(...lines.filter((line) => line[0] !== '@' && line[0] !== '\\'));
    found.notes.push(...notes.filter(([key]) => key === 'diff.alike' || key === 'diff.uncompared'));
  }
  return found;
}

function ofPatch(diff: string): Stated[] {
  try {
    return parsed(diff).map(({ from, to, hunks }) => ({
      path: to ?? from!,
      deletes: to === null,
      ...spelledOut(hunks.flatMap((hunk) => hunk.raw)),
    }));
  } catch {
    return []; // No call with such a patch is executed.
  }
}
