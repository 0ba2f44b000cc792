import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { CallContext } from '@codelab/client';
import { applied, parsed } from '../src/workspace/patches.ts';
import { changesOf, edited, kept, make } from '../src/workspace/changes.ts';
import type { Dialogue } from '../src/workspace/file_tools.ts';
import { Expectations, viewOf } from '../src/workspace/expectations.ts';
import { Folder } from '../src/workspace/folder.ts';
import { tools } from '../src/workspace/tools.ts';
import { Disk } from './disk.ts';

const [OLD, SAVED, NEW] = ['one\ntwo\nthree\n', 'one\ntwo\nthree\nsaved by the user\n', 'one\n2\nthree\n'];
const CALLS: [string, Record<string, unknown>][] = [
  ['write_file', { path: 'a.py', content: NEW }],
  ['edit_file', { path: './a.py', edits: [{ old: 'two', new: '2' }] }],
  ['delete_file', { path: 'a.py' }],
  ['move_file', { from: 'a.py', to: 'b.py' }],
  ['apply_patch', { diff: '--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n' }],
];

let place: string;
let folder: Folder;
let expectations: Expectations;
let asked: string[];
let answers: boolean[];

beforeEach(async () => {
  place = await mkdtemp(join(tmpdir(), 'page-'));
  folder = new Folder(new Disk(place) as unknown as FileSystemDirectoryHandle, 'ws');
  [expectations, asked, answers] = [new Expectations(), [], []];
  await writeFile(join(place, 'a.py'), OLD);
});
afterEach(() => rm(place, { recursive: true }));

const text = async (name = 'a.py') => readFile(join(place, name), 'utf8').catch(() => undefined);
const save = (content: string) => writeFile(join(place, 'a.py'), content);

/** The user sees a call. */
async function show(callId: string, [tool, args]: [string, Record<string, unknown>], meanwhile = async () => {}): Promise<void> {
  const before = await viewOf(folder, tool, args);
  await meanwhile();
  expectations.shown(callId, before, await viewOf(folder, tool, args));
}

/** Run a call that was released. Gives its error, or undefined. */
async function run(callId: string, [tool, args]: [string, Record<string, unknown>]): Promise<string | undefined> {
  const dialogue = {
    confirm: async (message: string) => {
      asked.push(message);
      return answers.shift() ?? false;
    },
  } as unknown as Dialogue;
  const made = tools({ folder: async () => folder, dialogue, changed: () => {}, expectations }).tools as Record<string, (args: unknown, context: CallContext) => unknown>;
  try {
    await made[tool]!(args, { callId, signal: new AbortController().signal } as CallContext);
    return undefined;
  } catch (error) {
    return `${(error as { code: string }).code} ${(error as Error).message}`;
  }
}

describe('a user who has seen the call', () => {
  test.each(CALLS)('%s: a save between the diff and the approval is asked about', async (...call) => {
    await show('c', call);
    await save(SAVED);
    expect(await run('c', call)).toContain('PERMISSION_DENIED');
    expect([asked, await text()]).toEqual([[expect.stringContaining('was changed after it was shown to the user')], SAVED]);
  });
  test('what is agreed to then is done', async () => {
    answers = [true];
    await show('c', CALLS[0]!);
    await save(SAVED);
    expect([await run('c', CALLS[0]!), await text()]).toEqual([undefined, NEW]);
  });
  test('a save while the diff is worked out is asked about', async () => {
    await show('c', CALLS[0]!, () => save(SAVED));
    expect(await run('c', CALLS[0]!)).toContain('PERMISSION_DENIED');
    expect(await text()).toBe(SAVED);
  });
  test('calls that were shown together are not asked about again', async () => {
    await mkdir(join(place, 'docs'));
    await writeFile(join(place, 'docs/a'), '');
    const edit = (old: string): [string, Record<string, unknown>] => ['edit_file', { path: 'a.py', edits: [{ old, new: old.toUpperCase() }] }];
    const calls: [string, Record<string, unknown>][] = [edit('one'), edit('two'), ['delete_file', { path: 'docs/a' }], ['delete_file', { path: 'docs' }]];
    for (const [number, call] of calls.entries()) await show(`${number}`, call);
    for (const [number, call] of calls.entries()) expect(await run(`${number}`, call)).toBeUndefined();
    expect([asked, await text()]).toEqual([[], 'ONE\nTWO\nthree\n']);
  });
});

describe('nobody has seen the call', () => {
  test.each([CALLS[0]!, CALLS[2]!])('%s needs a file that was read, and not saved since', async (...call) => {
    expect(await run('1', call)).toBe('EXECUTION_FAILED a.py exists: read it first. Nothing was changed');
    await run('2', ['read_file', { path: 'a.py' }]);
    await save(SAVED);
    expect(await run('3', call)).toContain('read it again');
    expect(await text()).toBe(SAVED);
    await run('4', ['read_file', { path: 'a.py' }]);
    expect(await run('5', call)).toBeUndefined();
  });
  test('what is not in the file is answered with how long it is', async () => {
    const made = tools({ folder: async () => folder, dialogue: {} as Dialogue, changed: () => {}, expectations }).tools as Record<string, (args: unknown, context: CallContext) => Promise<unknown>>;
    const read = await made['read_file']!({ path: 'a.py', offset: 9 }, {} as CallContext);
    expect(read).toMatchObject({ content: '', total_lines: 3, message: 'a.py has only 3 lines' });
    expect(read).not.toHaveProperty('first_line');
    const edited = await made['edit_file']!({ path: 'a.py', edits: [{ old: ' two \n', new: ' 2\n' }] }, { callId: '1' } as CallContext);
    expect(edited).toMatchObject({ success: true, matched: 'line 2, whitespace differs' });
    expect(await text()).toBe(NEW);
  });
  test('a folder needs all its files', async () => {
    await mkdir(join(place, 'docs/deep'), { recursive: true });
    await writeFile(join(place, 'docs/deep/a'), 'a');
    expect(await run('1', ['delete_file', { path: 'docs' }])).toContain('docs/deep/a exists: read it first');
    await run('2', ['read_file', { path: 'docs/deep/a' }]);
    expect(await run('3', ['delete_file', { path: 'docs' }])).toBeUndefined();
  });
  test('a new file needs nothing', async () => {
    expect(await run('1', ['write_file', { path: 'new/b.py', content: NEW }])).toBeUndefined();
    expect(await run('2', ['write_file', { path: 'new/b.py', content: OLD }])).toBeUndefined();
  });
});

describe('the last moment', () => {
  test('a save while the new content is being written stays', async () => {
    const [change] = await changesOf(folder, 'write_file', { path: 'a.py', content: NEW });
    const changes = [{ path: 'b.py', before: null, after: 'b' }, change!];
    const write = folder.write.bind(folder);
    folder.write = async (path, content, check) => write(path, content, path === 'a.py' ? async () => (await save(SAVED), check?.()) : check);
    await expect(make(folder, changes)).rejects.toThrow('a.py was changed meanwhile');
    expect([await text(), await text('b.py')]).toEqual([SAVED, undefined]);
  });
});

describe('bytes', () => {
  test('a file keeps its line ends and its mark', () => {
    expect(kept('1\n2\n', 'a\r\nb\r\n')).toBe('1\r\n2\r\n');
    expect(kept('1\n', '\ufeffa\n')).toBe('\ufeff1\n');
    expect(kept('1\n', 'a\r\nb\n')).toBe('1\n');
    expect(kept('1\n', null)).toBe('1\n');
  });
  const MIXED = 'one\r\ntwo\nthree\r\nfour\n\r\nfive';
  test.each([
    ['one\ntwo\n', '1\n2\n', '1\r\n2\nthree\r\nfour\n\r\nfive'],
    ['two\nthree', '2\n3\n3b\n3c', 'one\r\n2\n3\n3b\n3c\r\nfour\n\r\nfive'],
    ['three', '3\n3b', 'one\r\ntwo\n3\n3b\r\nfour\n\r\nfive'],
    ['four\n\nfive', '4', 'one\r\ntwo\nthree\r\n4'],
    ['one\r\ntwo', '1\n2', '1\n2\nthree\r\nfour\n\r\nfive'],
    ['one', '0\n1', '0\r\n1\r\ntwo\nthree\r\nfour\n\r\nfive'],
  ])('an edit of %j matches across mixed line ends', (old, fresh, after) => {
    expect(edited(MIXED, [{ old, new: fresh }])).toBe(after);
  });
  test('a patch applies across line ends', () => {
    const diff = '--- a/a\n+++ b/a\n@@ -1,4 +1,5 @@\n one\n-two\n+2\n+2b\n three\n four\n';
    expect(applied(parsed(diff)[0]!, MIXED)).toBe('one\r\n2\n2b\nthree\r\nfour\n\r\nfive');
    expect(applied(parsed(diff)[0]!, 'one\r\ntwo\r\nthree\r\nfour\r\n')).toBe('one\r\n2\r\n2b\r\nthree\r\nfour\r\n');
  });
  test.each([Buffer.from([0xff, 0xfe, 0x61, 0]), Buffer.from([0xe9]), Buffer.from('a\0b')])('what is no UTF-8 is not replaced', async (bytes) => {
    await writeFile(join(place, 'a.py'), bytes);
    for (const tool of ['read_file', 'write_file'] as const) {
      expect(await run('c', [tool, { path: 'a.py', ...(tool === 'write_file' && { content: 'x' }) }])).toContain('ENCODING_ERROR');
    }
    expect(Buffer.compare(await readFile(join(place, 'a.py')), bytes)).toBe(0);
  });
});
