import { expect, test } from 'vitest';
import { beginning, matching, mentionOf } from '../src/conversation/suggestions.ts';

test('a mention begins with an @ behind a blank, and a command with the first slash of the text', () => {
  expect(beginning('@')).toEqual({ kind: 'file', text: '', start: 0 });
  expect(beginning('see @src/ma')).toEqual({ kind: 'file', text: 'src/ma', start: 4 });
  expect(beginning('see @my\\ no')).toEqual({ kind: 'file', text: 'my no', start: 4 });
  expect(beginning('/mod')).toEqual({ kind: 'command', text: 'mod', start: 0 });
  expect(beginning('/model g')).toEqual({ kind: 'command', text: 'model g', start: 0 });
  expect(beginning('/remember see src/a')).toEqual({ kind: 'command', text: 'remember see src/a', start: 0 });
  for (const text of ['', 'a@b', '@done ', '/usr/bin', ' /new', '/new\n', 'a /b']) expect(beginning(text)).toBeUndefined();
});

test('paths are found by the beginning of their name, by a part, or by characters in their order, and not more than fit', () => {
  const paths = ['src/domain.py', 'tests/test_main.py', 'main.py', 'docs/remain/it.md', 'src/main_window.py', 'notes.txt'];
  expect(matching(paths, 'MAIN')).toEqual(['main.py', 'src/main_window.py', 'src/domain.py', 'tests/test_main.py', 'docs/remain/it.md']);
  expect(matching(paths, 'smw')).toEqual(['src/main_window.py']);
  expect(matching(paths, 'wm')).toEqual([]);
  expect(matching(paths, 'notes.txt')).toEqual([]);
  expect(matching([...Array(500).keys()].map(String), '')).toHaveLength(30);
});

test('a mention of a path with blanks reads as that path', () => {
  expect(mentionOf('my notes.txt')).toBe('@my\\ notes.txt');
  expect(beginning(mentionOf('a b/c d.md'))).toEqual({ kind: 'file', text: 'a b/c d.md', start: 0 });
});
