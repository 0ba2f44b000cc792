import { createTwoFilesPatch } from 'diff';
import type { Change } from '../workspace/changes.ts';

/**
 * The arguments with which a call makes the reviewed texts (`after` by path) of the proposed ones; undefined if nothing
 * was changed in the review, null if nothing is left of the changes.
 */
export function reviewedArguments(
  tool: string,
  args: Record<string, unknown>,
  changes: readonly Change[],
  after: ReadonlyMap<string, string | null>,
): Record<string, unknown> | null | undefined {
  const given = changes.map((change) => ({ ...change, after: after.has(change.path) ? after.get(change.path)! : change.after }));
  if (given.every((change, index) => change.after === changes[index]!.after)) return undefined;
  const left = given.filter((change) => change.after !== change.before);
  if (!left.length) return null;
  const [first] = left as [Change];
  switch (tool) {
    case 'write_file':
      return { ...args, content: first.after ?? '' };
    case 'edit_file':
      return { ...args, edits: [{ old: first.before ?? '', new: first.after ?? '' }] };
    default:
      return { ...args, diff: left.map(diffOf).join('') };
  }
}

/** A unified diff in the form that git writes and the server accepts. */
export function diffOf({ path, before, after }: Change): string {
  const [from, to] = [before === null ? '/dev/null' : `a/${path}`, after === null ? '/dev/null' : `b/${path}`];
  const patch = createTwoFilesPatch(from, to, before ?? '', after ?? '', undefined, undefined, { context: 3 });
  // Without jsdiff's own first line, and without the tabs after the names.
  return patch
    .split('\n')
    .filter((line, index) => index > 1 || !line.startsWith('===='))
    .map((line, index) => (index < 3 ? line.replace(/\t$/, '') : line))
    .join('\n');
}
