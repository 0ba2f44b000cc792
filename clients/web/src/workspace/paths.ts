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

/** Whether a path's names match a glob: `*.py` in any directory, `src/**` below `src`. */
export function matches(pattern: string, path: string): boolean {
  return globExpression(pattern).test(pattern.includes('/') ? path : (path.split('/').at(-1) ?? ''));
}

function globExpression(pattern: string): RegExp {
  let source = '';
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at]!;
    if (pattern.startsWith('**/', at)) {
      source += '(?:[^/]+/)*';
      at += 2;
    } else if (pattern.startsWith('**', at)) {
      source += '.*';
      at += 1;
    } else if (char === '*') source += '[^/]*';
    else if (char === '?') source += '[^/]';
    else source += char.replace(/[$()*+.?[\\\]^{|}]/, '\\$&');
  }
  return new RegExp(`^${source}$`, 'u');
}

function outside(path: string): ToolError {
  return new ToolError('PATH_OUTSIDE_WORKSPACE', `${JSON.stringify(path)} is outside of the workspace`);
}
