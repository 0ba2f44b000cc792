import { ToolError } from '@codelab/client';
import type { Files } from './files.ts';
import { matches, names } from './paths.ts';

export interface Match {
  path: string;
  line: number;
  text: string;
  before?: string[];
  after?: string[];
}

export interface Wanted {
  query: string;
  path?: string | undefined;
  caseSensitive?: boolean | undefined;
  glob?: string | undefined;
  most?: number | undefined;
  /** Lines before and after each match. */
  context?: number | undefined;
}

const MOST_MATCHES = 200;
const MOST_CHARS = 400;

/** Find a text in all text files. */
export async function search(folder: Files, wanted: Wanted, signal?: AbortSignal): Promise<{ matches: Match[]; truncated: boolean }> {
  if (!wanted.query) throw new ToolError('INVALID_ARGUMENTS', 'The query is empty');
  const fold = (text: string) => (wanted.caseSensitive ? text : text.toLowerCase());
  const needle = fold(wanted.query);
  const most = Math.min(wanted.most ?? MOST_MATCHES, MOST_MATCHES);
  const below = wanted.path && !(await folder.has(wanted.path).catch(() => false)) ? names(wanted.path).join('/') : '';
  const found: Match[] = [];
  for await (const path of files(folder, wanted.path ?? '.')) {
    signal?.throwIfAborted();
    if (wanted.glob && !matches(wanted.glob, below ? path.slice(below.length + 1) : path)) continue;
    let content: string;
    try {
      ({ content } = await folder.read(path));
    } catch (error) {
      if (error instanceof ToolError && ['ENCODING_ERROR', 'FILE_TOO_LARGE', 'FILE_NOT_FOUND'].includes(error.code)) continue;
      throw error;
    }
    const lines = content.split('\n').map((line) => line.replace(/\r$/, ''));
    for (const [index, text] of lines.entries()) {
      if (!fold(text).includes(needle)) continue;
      if (found.length === most) return { matches: found, truncated: true };
      const match: Match = { path, line: index + 1, text: text.slice(0, MOST_CHARS) };
      if (wanted.context) {
        match.before = lines.slice(Math.max(0, index - wanted.context), index).map((line) => line.slice(0, MOST_CHARS));
        match.after = lines.slice(index + 1, index + 1 + wanted.context).map((line) => line.slice(0, MOST_CHARS));
      }
      found.push(match);
    }
  }
  return { matches: found, truncated: false };
}

async function* files(folder: Files, path: string): AsyncGenerator<string> {
  if (names(path).length && (await folder.has(path).catch(() => false))) {
    yield names(path).join('/');
    return;
  }
  for await (const item of folder.walk(path)) if (item.type === 'file') yield item.path;
}
