import { ToolError } from '@codelab/client';

/** One `@@` part: its lines before and after, each with its line end. */
export interface Hunk {
  start: number;
  old: string[];
  new: string[];
  raw: string[];
}

/** What a diff does to one file: `from` becomes `to`; null stands for no file. */
export interface FilePatch {
  from: string | null;
  to: string | null;
  header: string[];
  hunks: Hunk[];
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const NO_NEWLINE = '\\ No newline at end of file';

/** Read a unified diff in the strict form of docs/tools.md. Throws PATCH_APPLY_FAILED with the offending line. */
export function parsed(diff: string): FilePatch[] {
  const lines = diff.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const files: FilePatch[] = [];
  let at = 0;
  let header: string[] = [];
  const fail = (why: string): never => {
    throw new ToolError('PATCH_APPLY_FAILED', `Line ${at + 1} of the diff: ${why}`);
  };
  while (at < lines.length) {
    const line = lines[at]!;
    if (line.startsWith('--- ')) {
      const next = lines[at + 1] ?? '';
      if (!next.startsWith('+++ ')) fail('"+++" must follow "---"');
      const patch: FilePatch = {
        from: fileName(line.slice(4), 'a/'),
        to: fileName(next.slice(4), 'b/'),
        header: [...header, line, next],
        hunks: [],
      };
      if (patch.from === null && patch.to === null) fail('no file is named');
      header = [];
      at += 2;
      while (at < lines.length && lines[at]!.startsWith('@@')) {
        const found = HUNK.exec(lines[at]!);
        if (!found) return fail('not a hunk');
        let [oldLeft, newLeft] = [Number(found[2] ?? 1), Number(found[4] ?? 1)];
        const hunk: Hunk = { start: Number(found[1]), old: [], new: [], raw: [lines[at]!] };
        at++;
        while (oldLeft > 0 || newLeft > 0 || lines[at] === NO_NEWLINE) {
          const body = lines[at];
          if (body === undefined) return fail('the hunk is cut off');
          if (body === NO_NEWLINE) {
            const last = hunk.raw.at(-1)![0];
            if (last !== '+') hunk.old.push(hunk.old.pop()!.replace(/\n$/, ''));
            if (last !== '-') hunk.new.push(hunk.new.pop()!.replace(/\n$/, ''));
          } else {
            const [sign, content] = [body[0] ?? ' ', `${body.slice(1)}\n`];
            if (!' +-'.includes(sign)) return fail('a line of a hunk begins with a space, + or -');
            if (sign !== '+') {
              hunk.old.push(content);
              oldLeft--;
            }
            if (sign !== '-') {
              hunk.new.push(content);
              newLeft--;
            }
            if (oldLeft < 0 || newLeft < 0) return fail('the hunk has more lines than it says');
          }
          hunk.raw.push(body);
          at++;
        }
        patch.hunks.push(hunk);
      }
      files.push(patch);
    } else if (/^(diff --git |old mode|new mode|deleted file|new file|similarity|rename |copy |index )/.test(line)) {
      header.push(line);
      at++;
      if (/^rename to /.test(line) && !lines[at]?.startsWith('index') && !lines[at]?.startsWith('--- ')) {
        const from = header.find((one) => one.startsWith('rename from '))?.slice(12) ?? null;
        files.push({ from, to: line.slice(10), header, hunks: [] });
        header = [];
      }
    } else {
      fail('unexpected');
    }
  }
  if (!files.length) throw new ToolError('PATCH_APPLY_FAILED', 'The diff changes no file');
  return files;
}

/** A text with a file's hunks applied: each where it says or, if it does not fit there, where it fits and only there. */
export function applied(patch: FilePatch, text: string): string {
  const own = splitLines(text);
  // Who writes a diff does not see CR: then old lines keep their ends, and new ones have their neighbours'.
  const keepsEnds = !patch.hunks.some((hunk) => [...hunk.old, ...hunk.new].some((line) => line.endsWith('\r\n')));
  const lines = keepsEnds ? own.map((line) => line.replace(/\r\n$/, '\n')) : own;
  const made: string[] = [];
  let done = 0;
  for (const [index, hunk] of patch.hunks.entries()) {
    const stated = hunk.old.length ? hunk.start - 1 : hunk.start;
    const place = fits(lines, hunk.old, stated) && stated >= done ? stated : onlyPlace(lines, hunk.old, done);
    if (place === undefined) {
      throw new ToolError('PATCH_APPLY_FAILED', `Hunk ${index + 1} does not fit ${patch.from ?? patch.to}`);
    }
    made.push(...own.slice(done, place), ...(keepsEnds ? withEnds(hunk, own, place) : hunk.new));
    done = place + hunk.old.length;
  }
  return [...made, ...own.slice(done)].join('');
}

function withEnds(hunk: Hunk, lines: readonly string[], place: number): string[] {
  const isCrlf = (line: string | undefined) => line?.endsWith('\r\n') === true;
  let end = isCrlf(lines[Math.max(0, place - 1)]) ? '\r\n' : '\n';
  const made: string[] = [];
  for (const raw of hunk.raw.slice(1)) {
    if (raw.startsWith('\\')) continue;
    if (raw.startsWith('+')) {
      made.push(hunk.new[made.length]!.replace(/\n$/, end));
      continue;
    }
    const line = lines[place++]!;
    if (line.endsWith('\n')) end = isCrlf(line) ? '\r\n' : '\n';
    if (!raw.startsWith('-')) made.push(line);
  }
  return made;
}

/** The diff with only the chosen hunks, counted from 1 over all files. */
export function chosen(files: readonly FilePatch[], chunks: ReadonlySet<number>): string {
  let number = 0;
  const lines: string[] = [];
  for (const file of files) {
    const kept = file.hunks.filter(() => chunks.has(++number));
    if (kept.length) lines.push(...file.header, ...kept.flatMap((hunk) => hunk.raw));
  }
  return lines.length ? `${lines.join('\n')}\n` : '';
}

function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function fits(lines: readonly string[], old: readonly string[], place: number): boolean {
  return place >= 0 && place + old.length <= lines.length && old.every((line, index) => lines[place + index] === line);
}

function onlyPlace(lines: readonly string[], old: readonly string[], from: number): number | undefined {
  if (!old.length) return undefined;
  let found: number | undefined;
  for (let place = from; place + old.length <= lines.length; place++) {
    if (!fits(lines, old, place)) continue;
    if (found !== undefined) return undefined;
    found = place;
  }
  return found;
}

function fileName(name: string, prefix: string): string | null {
  const text = name.startsWith('"') ? unquoted(name) : name.replace(/\t.*$/, '');
  if (text === '/dev/null') return null;
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

/** git's form of a name with unusual bytes: octal escapes in quotes. */
function unquoted(name: string): string {
  const bytes: number[] = [];
  for (const part of name.slice(1, name.lastIndexOf('"')).match(/\\[0-7]{3}|\\.|[^\\]/gu) ?? []) {
    if (/^\\[0-7]{3}$/.test(part)) bytes.push(Number.parseInt(part.slice(1), 8));
    else bytes.push(...new TextEncoder().encode(part.replace(/^\\/, '')));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}
