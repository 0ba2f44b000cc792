import { describe, expect, test } from 'vitest';
import { readable, visible, visibleJson, visibleLine } from '../src/conversation/safe.ts';
import { comparable, difference, spelledOut } from '../src/review/difference.ts';
import { statedChanges } from '../src/review/stated.ts';

/** Format characters that are drawn: signs before numbers and verses. */
const DRAWN = /[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}]/u;
/** Besides what Unicode says: letters and marks that look like a space or like nothing. */
const BLANK = [0x2800, 0x16fe4, 0x1d159, 0x13441, 0x13442, 0xfffc];

/** Every character that a person cannot see, or not for what it is, without looking at the page's list. */
function corpus(): string[] {
  const found = BLANK.map((code) => String.fromCodePoint(code));
  for (let code = 0; code < 0x110000; code++) {
    const char = String.fromCodePoint(code);
    if (/[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{Cs}]/u.test(char) && !DRAWN.test(char)) found.push(char);
  }
  return found.filter((char) => !' \n\t'.includes(char));
}

const change = (before: string | null, after: string) => difference({ path: 'a', before, after });
const keys = (before: string | null, after: string) => change(before, after).notes.map(([key]) => key);

describe('what a person decides about', () => {
  test('has no character that is unseen', () => {
    const characters = corpus();
    const unseen = characters.filter((char) => {
      const shown = [
        visible(`a${char}b`),
        visibleLine(`a${char}b`),
        ...change('a\n', `a${char}b\n`).lines,
        ...change(null, `a${char}b`).lines,
        ...spelledOut([`-a${char}b`, '+ab']).lines,
      ];
      return shown.some((text) => text.includes(char));
    });
    console.info(`${characters.length} characters, ${unseen.length} unseen in the page`);
    expect(characters.length).toBeGreaterThan(6_000);
    expect(unseen).toEqual([]);
  });
  test('is edited as JSON in which nothing is hidden', () => {
    const args = { path: 'a\u200db', content: '\u{e0100}\u3164 👩 é\n' };
    expect(visibleJson(args)).toContain('a\\u200db');
    expect(visibleJson(args)).toContain('\\udb40\\udd00\\u3164 👩 é\\n');
    expect(JSON.parse(visibleJson(args))).toEqual(args);
  });
  test('keeps its blanks', () => {
    expect(visibleLine(' a  b\n\tc ')).toBe('␠a  b␊␉c␠');
  });
  test('emoji stay readable in prose', () => {
    const family = '👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 می\u200cخواهم\u00a0!';
    expect(readable(family)).toBe(family);
    expect(readable('ad\u200dmin\u202e')).toBe('ad⟨U+200D⟩min⟨U+202E⟩');
    expect(visible(family)).toContain('👩⟨U+200D⟩💻 ❤⟨U+FE0F⟩');
  });
});

describe('a change', () => {
  test.each(['\f', '\v', '\x1c', '\x85', '\u2028', '\u2029', '\r'])('of a line end to %j is shown', (separator) => {
    expect(change('#\nevil()\n', `#${separator}evil()\n`).lines.slice(1)).toEqual(['-#', '-evil()', `+#${visible(separator)}evil()`]);
    expect(visible(separator)).toMatch(/^⟨U\+/);
  });
  test('of line ends is told', () => {
    expect(change('a\nb\n', 'a\r\nb\r\n')).toEqual({ lines: [], notes: [['diff.ends', { from: 'LF', to: 'CRLF' }]] });
    expect(keys('a\r\nb\r\n', 'a\nb\n')).toEqual(['diff.ends']);
    expect(change('a\nb\n', 'a\r\nb\n').lines).toContain('+a⟨U+000D⟩');
    expect(keys(null, 'a\r\n')).toEqual(['diff.newends']);
  });
  test('of the last line end is told', () => {
    expect(change('a\n', 'a')).toEqual({ lines: ['@@ -1,1 +1,1 @@', '-a', '+a', '\\ No newline at end of file'], notes: [['diff.nonewline']] });
    expect(keys('a', 'a\n')).toEqual(['diff.newline']);
    expect(change(null, 'a').lines).toEqual(['+a', '\\ No newline at end of file']);
  });
  test.each([
    ['admin', '\u0430dmin'],
    ['\u043e', '\u03bf'],
    ['admin', 'new\n\u0430dmin'],
    ['caf\u00e9', 'cafe\u0301'],
    ['\ttrue', '        true'],
    ['a\u200b', 'a⟨U+200B⟩'],
    ['a b', 'a\u00a0b'],
    ['a', 'a   '],
  ])('of %j to %j does not look like none', (before, after) => {
    const lines = change(`${before}\n`, `${after}\n`).lines.slice(1);
    expect(new Set(lines.map((line) => line.slice(1))).size).toBe(lines.length);
  });
  test('of ordinary lines is told once', () => {
    expect(change('old\r\nкот\r\n', 'new\r\nкит\r\n')).toEqual({ lines: ['@@ -1,2 +1,2 @@', '-old', '-кот', '+new', '+кит'], notes: [] });
  });
  test('that is too large to compare says that it replaces all', () => {
    expect(keys('x'.repeat(300_000), 'y'.repeat(300_000))).toContain('diff.uncompared');
  });
  test('loses no line end in an editor', () => {
    for (const text of ['a\rb\n', 'a\r\nb\n', 'a\r\r\nb\r\n', '\r\n', 'a\u2028b', '']) {
      const shown = comparable(text, '');
      expect(shown === text ? shown : shown.replaceAll('\n', '\r\n')).toBe(text);
    }
  });
});

describe('what a call says that it changes, without the file', () => {
  test('is the lines of its edits, without numbers that only the file gives', () => {
    const edits = [{ old: 'a\nb\nc', new: 'a\nB\u202e\nc' }, { old: 'x', new: '' }];
    expect(statedChanges('edit_file', { path: 'f', edits })).toEqual([{ path: 'f', lines: [' a', '-b', '+B⟨U+202E⟩', ' c', '@@', '-x'], notes: [] }]);
  });
  test('is the lines of its patch', () => {
    const diff = '--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-all\n';
    const [first, second] = statedChanges('apply_patch', { diff });
    expect(first).toMatchObject({ path: 'f', deletes: false, lines: ['@@ -1,2 +1,2 @@', '-old', '+new', ' same'] });
    expect(second).toMatchObject({ path: 'g', deletes: true });
  });
  test('is its content, of which nobody knows what is new', () => {
    expect(statedChanges('write_file', { path: 'f', content: 'all\n' })).toEqual([{ path: 'f', lines: [], notes: [], content: 'all\n' }]);
  });
  test('is nothing if it says nothing that can be read', () => {
    for (const [tool, args] of [['edit_file', { edits: 3 }], ['write_file', {}], ['apply_patch', { diff: 'no' }], ['read_file', { path: 'f' }]] as const) {
      expect(statedChanges(tool, args)).toEqual([]);
    }
    expect(statedChanges('edit_file', { path: 'f', edits: [null, { old: 1 }] })[0]!.lines).toEqual([]);
  });
});
