import { describe, expect, test } from 'vitest';
import { Blocks, LARGE } from '../src/conversation/blocks.ts';
import { visible } from '../src/conversation/safe.ts';
import { diffOf, reviewedArguments } from '../src/review/arguments.ts';
import { sessionIn } from '../src/shell/address.ts';
import { edited } from '../src/workspace/changes.ts';
import { applied, chosen, parsed } from '../src/workspace/patches.ts';
import { matches, names } from '../src/workspace/paths.ts';

describe('paths', () => {
  test.each(['a/b.txt', './a//b.txt', 'a/./b.txt'])('%s is below the workspace', (path) => {
    expect(names(path)).toEqual(['a', 'b.txt']);
  });
  test.each(['../a', 'a/../../b', '/etc/passwd', 'C:/x', '\\\\host\\x', 'a\\..\\b', 'a\u0000b', 'a\nb'])('%j is refused', (path) => {
    expect(() => names(path)).toThrow();
  });
  test('globs', () => {
    expect(matches('*.py', 'src/a.py')).toBe(true);
    expect(matches('src/**/*.py', 'src/a/b/c.py')).toBe(true);
    expect(matches('src/*.py', 'src/a/b.py')).toBe(false);
    expect(matches('a.c', 'abc')).toBe(false);
    expect(matches('**/a', 'a')).toBe(true);
    expect(matches('**/a/**/b?', 'x/a/y/a/z/bc')).toBe(true);
    expect(matches('src/**', 'src/a/b')).toBe(true);
    expect(matches('*a*b', 'xaybab')).toBe(true);
    expect(matches('*a*b', 'xayba')).toBe(false);
  });
  test('a glob cannot keep the page busy', () => {
    expect(matches('*a'.repeat(100) + 'b', 'a'.repeat(200))).toBe(false);
    expect(matches('**/a/'.repeat(100) + 'b', 'a/'.repeat(200) + 'a')).toBe(false);
    expect(matches('**/'.repeat(1_000) + 'b', 'a/'.repeat(200) + 'a')).toBe(false);
  });
});

describe('the address', () => {
  test('names a session', () => {
    expect(sessionIn('#/s/sess_1.a:b-c')).toBe('sess_1.a:b-c');
    expect(sessionIn('#/s/a%3Ab')).toBe('a:b');
  });
  test.each(['', '#', '#%', '#/s/%', '#/s/%ff', '#/s/..', '#/s/.', '#/s/%2e%2e', '#/s/a/../b', '#/s/a%2Fb', `#/s/${'a'.repeat(129)}`])('%j names none', (hash) => {
    expect(sessionIn(hash)).toBeUndefined();
  });
});

describe('patches', () => {
  const text = 'one\ntwo\nthree\nfour\nfive\n';
  const diff = '--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@\n two\n-three\n+THREE\n';

  test('a hunk is applied where it says', () => {
    expect(applied(parsed(diff)[0]!, text)).toBe('one\ntwo\nTHREE\nfour\nfive\n');
  });
  test('a hunk is applied where it fits, if there only', () => {
    expect(applied(parsed(diff)[0]!, `zero\n${text}`)).toBe('zero\none\ntwo\nTHREE\nfour\nfive\n');
    expect(() => applied(parsed(diff)[0]!, `x\n${text}two\nthree\n`)).toThrow('does not fit');
    expect(() => applied(parsed(diff)[0]!, 'one\n')).toThrow('does not fit');
  });
  test('the end of a file without a line end', () => {
    const patch = '--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n';
    expect(applied(parsed(patch)[0]!, 'a')).toBe('b');
    expect(() => applied(parsed(patch)[0]!, 'a\n')).toThrow();
  });
  test('only chosen hunks', () => {
    const two = `${diff}--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n`;
    expect(chosen(parsed(two), new Set([2]))).toBe('--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n');
    expect(chosen(parsed(two), new Set([1, 2]))).toBe(two);
  });
  test.each(['', 'hello', '--- a/f\n', '--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n', '--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n'])(
    '%j is no diff',
    (text) => expect(() => parsed(text)).toThrow(),
  );
  test('what a review makes of a text is applied to the same text, however often', () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
    for (let round = 0; round < 300; round++) {
      const lines = Array.from({ length: random(30) }, () => ['a', 'b', '', 'ы', '\tx\r'][random(5)]!);
      const before = lines.join('\n') + (random(2) ? '\n' : '');
      const after = lines.flatMap((line) => (random(4) ? [line] : random(2) ? [] : [line, 'new'])).join('\n') + (random(2) ? '\n' : '');
      if (before === after || !before || !after) continue;
      const [patch] = parsed(diffOf({ path: 'f', before, after }));
      expect(applied(patch!, before)).toBe(after);
    }
  });
});

describe('reviews', () => {
  const changes = [{ path: 'f', before: 'a\nb\n', after: 'A\nB\n' }];
  test('an unchanged proposal is approved', () => {
    expect(reviewedArguments('write_file', {}, changes, new Map([['f', 'A\nB\n']]))).toBeUndefined();
  });
  test('a proposal of which nothing is left is rejected', () => {
    expect(reviewedArguments('write_file', {}, changes, new Map([['f', 'a\nb\n']]))).toBeNull();
  });
  test('what is left becomes the arguments of each tool', () => {
    const left = new Map([['f', 'a\nB\n']]);
    expect(reviewedArguments('write_file', { path: 'f', content: '' }, changes, left)).toEqual({ path: 'f', content: 'a\nB\n' });
    const { diff } = reviewedArguments('apply_patch', {}, changes, left) as { diff: string };
    expect(applied(parsed(diff)[0]!, 'a\nb\n')).toBe('a\nB\n');
    const { edits } = reviewedArguments('edit_file', { path: 'f' }, changes, left) as { edits: unknown };
    expect(edited('a\nb\n', edits)).toBe('a\nB\n');
  });
});

describe('edits', () => {
  test('exactly once, or all on wish', () => {
    expect(edited('a b a', [{ old: 'b', new: 'c' }])).toBe('a c a');
    expect(edited('a b a', [{ old: 'a', new: '$&', replace_all: true }])).toBe('$& b $&');
    expect(() => edited('a b a', [{ old: 'a', new: 'c' }])).toThrow('more than once');
    expect(() => edited('a', [{ old: 'x', new: 'c' }])).toThrow('does not have');
    expect(() => edited('aaa', [{ old: 'aa', new: 'c' }])).toThrow('more than once');
  });
  test('all refer to the text as it was, and must not overlap', () => {
    expect(edited('a b', [{ old: 'a', new: 'b' }, { old: 'b', new: 'a' }])).toBe('b a');
    expect(() => edited('abc', [{ old: 'ab', new: 'x' }, { old: 'bc', new: 'y' }])).toThrow('overlap');
  });
  test('lines end as in the file', () => {
    expect(edited('a\r\nb\r\n', [{ old: 'a\nb', new: 'c\nd' }])).toBe('c\r\nd\r\n');
  });
  test('lines that differ only in whitespace are those that are meant', () => {
    const text = 'class A:\n    def a(self):  \n        return 1\n\n    def b(self):\n        return 2';
    const edit = (old: string, fresh: string) => edited(text, [{ old, new: fresh }]);
    expect(edit('def a(self):\n    return 1\n', 'def a(self):\n    return 3\n')).toBe(text.replace('a(self):  \n        return 1', 'a(self):\n        return 3'));
    expect(edit('            return 1\n\n        def b(self):', '            return 1\n        def c(self):')).toBe(text.replace('1\n\n    def b', '1\n    def c'));
    expect(edit('def b(self):\n    return 2\n', 'def b(self):\n    return 3\n')).toBe(text.replace('return 2', 'return 3'));
    expect(edited('if a:\r\n    b \r\n    c\r\nd', [{ old: 'b\nc\n', new: 'x\n' }])).toBe('if a:\r\n    x\r\nd');
    expect(edited('if a:\r\n    b \n    c\r\nd', [{ old: 'b\nc', new: 'b\nx' }])).toBe('if a:\r\n    b\n    x\r\nd');
  });
  test.each([
    ['  a\n  b\n  a\n  b\n', 'a\nb', 'c'],
    ['  a\n    b\n', 'a\nb', 'c'],
    ['\ta\n\tb\n', '    a\n    b', 'c'],
    ['a\nb\n', '  a\n  b', 'c\n  d'],
    ['  a\n  b\n', 'a\nb', '  a\n  b'],
    ['  a b\n  c\n', 'a  b\nc', 'x'],
  ])('in %j it is not sure where %j is', (text, old, fresh) => {
    expect(() => edited(text, [{ old, new: fresh }])).toThrow('does not have');
    expect(() => edited(text, [{ old, new: fresh, replace_all: true }])).toThrow('does not have');
  });
  test('the closest lines are shown', () => {
    expect(() => edited('one\nreturn total(x)\n', [{ old: 'return total(y)', new: '' }])).toThrow('2: return total(x)');  });
});

describe('texts', () => {
  test('blocks of a growing text are those of the whole text', () => {
    const text = '# A\n\nSome *text*\nmore\n\n- one\n\n- two\n\n```js\nlet a;\n\nlet b;\n```\n\n| a |\n|---|\n| 1 |\n\nend';
    const growing = new Blocks();
    for (let at = 1; at <= text.length; at++) growing.take(text.slice(0, at));
    expect(growing.take(text).map((block) => block.raw)).toEqual(new Blocks().take(text).map((block) => block.raw));
    expect(growing.take(text).map((block) => block.raw).join('')).toBe(text);
  });
  test('a line of megabytes costs no Markdown', () => {
    const blocks = new Blocks();
    let text = 'Hello\n\n';
    for (let n = 0; n < 25; n++) blocks.take((text += '[*'.repeat(LARGE)));
    expect(blocks.take(text).at(-1)!.kind).toBe('plain');
  });
  test('characters that deceive are shown', () => {
    expect(visible('a\u202eb\u200bc\ttab\nline')).toBe('a⟨U+202E⟩b⟨U+200B⟩c\ttab\nline');
  });
});
