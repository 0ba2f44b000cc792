import { structuredPatch } from 'diff';
import { spelled, visible } from '../conversation/safe.ts';
import type { Key } from '../i18n/en.ts';
import type { Change } from '../workspace/changes.ts';

/** What no line of a difference shows: a text of the page, and its values. */
export type Note = [key: Key, values?: Record<string, string>];

/** A change as it may be shown. Each line begins with ' ', '+', '-', '@' or '\'; nothing in it is invisible. */
export interface Difference {
  lines: string[];
  notes: Note[];
}

type LineEnds = '' | 'LF' | 'CRLF' | 'mixed';

/** Characters above which texts are not compared, because that could take minutes. */
const COMPARED = 400_000;
/** Cyrillic, Greek and Armenian letters, and some of phonetic alphabets, that most fonts draw like Latin ones. */
const LATIN = new Map(
  [...'асеорхуіјѕԁһԛԝкАВЕЅІЈКМНОРСТУХαορνικυγχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհɑıɡ'].map((char, index) => [
    char,
    'aceopxyijsdhqwkABESIJKMHOPCTYXaopvikuyxABEZHIKMNOPTYXounhaig'[index]!,
  ]),
);
const NO_NEWLINE = '\\ No newline at end of file';

/** What a change does to a text. Only \n ends a line, as for git. */
export function difference({ path, before, after }: Change): Difference {
  const [old, fresh] = [before ?? '', after ?? ''];
  const notes: Note[] = [];
  const [from, to] = [lineEnds(old), lineEnds(fresh)];
  if (from && to && from !== to) notes.push(['diff.ends', { from, to }]);
  else if (before === null && to && to !== 'LF') notes.push(['diff.newends', { to }]);
  if (old && fresh && old.endsWith('\n') !== fresh.endsWith('\n')) notes.push([old.endsWith('\n') ? 'diff.nonewline' : 'diff.newline']);
  const [one, other] = [comparable(old, fresh), comparable(fresh, old)];
  const patch = old && old.length + fresh.length <= COMPARED
    ? structuredPatch(path, path, one, other, undefined, undefined, { context: 3, timeout: 500 })
    : undefined;
  if (old && !patch) notes.push(['diff.uncompared']);
  const lines = patch
    ? patch.hunks.flatMap((hunk) => [`@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`, ...hunk.lines])
    : added(other);
  const shown = spelledOut(lines);
  return { lines: shown.lines, notes: [...notes, ...shown.notes] };
}

/** A text for a comparison with another one: with \n for CRLF if each of them has one kind of line ends. */
export function comparable(text: string, other: string): string {
  return lineEnds(text) === 'CRLF' && lineEnds(other) !== 'mixed' ? text.replaceAll('\r\n', '\n') : text;
}

/** The lines of a unified diff, without their newlines, as they may be shown. */
export function spelledOut(lines: readonly string[]): Difference {
  const shown: string[] = [];
  let hasDoubles = false;
  let removed: string[] = [];
  const flush = (next: string[]) => {
    const doubles = doublesOf(removed, next);
    hasDoubles ||= doubles.size > 0;
    shown.push(...[...removed, ...next].map((line) => (doubles.has(line) ? plain(line) : lineOf(line))));
    removed = [];
  };
  for (let at = 0; at < lines.length; ) {
    const sign = lines[at]![0];
    let end = at + 1;
    while (end < lines.length && lines[end]![0] === sign) end++;
    const block = lines.slice(at, end);
    at = end;
    if (sign === '-' || (sign === '\\' && removed.length)) removed.push(...block);
    else flush(block);
  }
  flush([]);
  return { lines: shown, notes: hasDoubles ? [['diff.alike']] : [] };
}

function added(text: string): string[] {
  if (!text) return [];
  const lines = text.replace(/\n$/, '').split('\n').map((line) => `+${line}`);
  return text.endsWith('\n') ? lines : [...lines, NO_NEWLINE];
}

function lineEnds(text: string): LineEnds {
  if (!text.includes('\n')) return '';
  if (!text.includes('\r\n')) return 'LF';
  return /(?:^|[^\r])\n/.test(text) ? 'mixed' : 'CRLF';
}

const isChanged = (line: string) => line[0] === '+' || line[0] === '-';

/** Blanks at the end of a changed line are visible. */
function ended(line: string): string {
  return line.replace(/[ \t]+$/, (blanks) => blanks.replaceAll(' ', '␠').replaceAll('\t', '␉'));
}

function lineOf(line: string): string {
  return isChanged(line) ? line[0] + ended(visible(line.slice(1))) : visible(line);
}

/** A line in which every character but plain ASCII is spelled out. */
function plain(line: string): string {
  return isChanged(line) ? line[0] + ended(line.slice(1).replaceAll('\t', '␉').replace(/[^ -~␉]|⟨(?=U\+)/gu, spelled)) : visible(line);
}

/** The lines that are replaced by ones that look the same, and these. */
function doublesOf(removed: readonly string[], next: readonly string[]): Set<string> {
  const found = new Set<string>();
  if (!removed.length || next[0]?.[0] !== '+') return found;
  const known = new Map<string, Set<string>>();
  for (const line of removed.filter((line) => line[0] !== '\\')) {
    const outline = outlineOf(line);
    known.set(outline, (known.get(outline) ?? new Set()).add(line));
  }
  for (const line of new Set(next)) {
    for (const old of known.get(outlineOf(line)) ?? []) {
      const isAlike = old.slice(1) !== line.slice(1) && (`${old}${line}`.includes('\t') || glyphsOf(old) === glyphsOf(line));
      if (isAlike) found.add(old).add(line);
    }
  }
  return found;
}

/** How a line looks if blanks do not count: a tab may look like any number of them. */
function outlineOf(line: string): string {
  return glyphsOf(line).replace(/[ \t␠␉]+/g, ' ').trimEnd();
}

/** How a changed line looks, without its sign. */
function glyphsOf(line: string): string {
  return [...lineOf(line).slice(1).normalize('NFKC')].map((char) => LATIN.get(char) ?? char).join('');
}
