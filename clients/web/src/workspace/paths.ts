import { ToolError } from '@codelab/client';

/** The names of a path below the workspace; none for the workspace itself. Throws a ToolError for any other path. */
export function names(path: string): string[] {
  if (/^[/\\]|^[A-Za-z]:/.test(path)) throw outside(path);
  if (/[\\\u0000-\u001f\u007f]/.test(path)) throw new ToolError('INVALID_PATH', `${JSON.stringify(path)} is not a path`);
  const found: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') throw outside(path);
    found.push(part);
  }
  return found;
}

/** The same for a path that must name something below the workspace. */
export function namesBelow(path: string): string[] {
  const found = names(path);
  if (!found.length) throw new ToolError('INVALID_PATH', 'The workspace itself cannot be meant here');
  return found;
}

/**
 * Whether a path's names match a glob: `*.py` in any directory, `src/**` below `src`. No regular expression: that of a
 * hostile glob could keep the page's only thread busy for ever.
 */
export function matches(pattern: string, path: string): boolean {
  const given = path.split('/');
  if (!pattern.includes('/')) return fits([...pattern], [...given.at(-1)!], (one) => one === '*', isChar);
  const wanted = pattern.split('/').filter((part) => part !== '' && part !== '.');
  return fits(wanted, given, (one) => one === '**', (one, name) => fits([...one], [...name], (char) => char === '*', isChar));
}

function isChar(wanted: string, char: string): boolean {
  return wanted === '?' || wanted === char;
}

/** Whether the parts are those that are wanted, where some stand for any number of parts. Only the last of those is ever tried again. */
function fits(wanted: readonly string[], parts: readonly string[], isAny: (one: string) => boolean, equals: (one: string, part: string) => boolean): boolean {
  let [at, seen] = [0, 0];
  let retry: [number, number] | undefined;
  while (seen < parts.length) {
    if (at < wanted.length && isAny(wanted[at]!)) {
      retry = [++at, seen];
    } else if (at < wanted.length && equals(wanted[at]!, parts[seen]!)) {
      at++;
      seen++;
    } else if (retry) {
      retry[1]++;
      [at, seen] = retry;
    } else return false;
  }
  return wanted.slice(at).every(isAny);
}

function outside(path: string): ToolError {
  return new ToolError('PATH_OUTSIDE_WORKSPACE', `${JSON.stringify(path)} is outside of the workspace`);
}
