/** What is being written before the caret: a command (all of the text), or the path of a mention behind its `@`. */
export interface Beginning {
  kind: 'command' | 'file';
  text: string;
  /** Where it starts, with its `/` or `@`. */
  start: number;
}

/** Paths that are suggested at once. */
const MOST_PATHS = 30;
const MENTION = /(?:^|\s)@((?:\\.|[^\s@\\])*)$/;

/** What the text before the caret begins, if anything. A path that begins with a slash is no command; a note may have one. */
export function beginning(text: string): Beginning | undefined {
  if (/^\/([^/\n]*|remember [^\n]*)$/.test(text)) return { kind: 'command', text: text.slice(1), start: 0 };
  const mention = MENTION.exec(text)?.[1];
  if (mention === undefined) return undefined;
  return { kind: 'file', text: mention.replace(/\\(.)/g, '$1'), start: text.length - mention.length - 1 };
}

/** A path as a message mentions it, with a backslash before blanks. */
export function mentionOf(path: string): string {
  return `@${path.replace(/\s/g, '\\$&')}`;
}

/**
 * The paths that may be meant: those whose name begins with the text first, then those that have it, then those that have
 * its characters in this order. Short ones come first.
 */
export function matching(paths: readonly string[], text: string): string[] {
  const needle = text.toLowerCase();
  const found = paths
    .flatMap((path) => {
      const rank = rankOf(path.toLowerCase(), needle);
      return rank === undefined ? [] : [{ path, rank }];
    })
    .sort((one, other) => one.rank - other.rank || one.path.length - other.path.length || (one.path < other.path ? -1 : 1))
    .slice(0, MOST_PATHS)
    .map(({ path }) => path);
  return found.length === 1 && found[0] === text ? [] : found; // It is written already.
}

function rankOf(path: string, needle: string): number | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (name.startsWith(needle)) return 0;
  if (name.includes(needle)) return 1;
  if (path.includes(needle)) return 2;
  let at = -1;
  for (const char of needle) {
    at = path.indexOf(char, at + 1);
    if (at < 0) return undefined;
  }
  return 3;
}
