import { expect, test } from 'vitest';
import { MOST_CHARS, Notes, type Place } from '../src/notes/notes.ts';

function kept(content = ''): Place & { content: string } {
  return {
    content,
    async read() {
      return this.content;
    },
    async write(next) {
      this.content = next;
    },
  };
}

const fail = (error: unknown) => {
  throw error;
};

test('a note is a line of a text, and both texts are told as the terminal tells them', async () => {
  const places = { user: kept(), project: kept() };
  const notes = new Notes(places);
  expect(await notes.instructions()).toEqual([]);
  await notes.add('project', '  Use\n tabs. ');
  await notes.add('user', 'My name is Ann.');
  await notes.add('project', "- Say 'ok'.");
  expect(await notes.instructions()).toEqual([
    { path: 'notes of the user.md', content: '- My name is Ann.\n' },
    { path: '.codelab/notes.md', content: "- Use tabs.\n- - Say 'ok'.\n" },
  ]);
  expect((await notes.listed(fail)).map(({ scope, text }) => `${scope}: ${text}`)).toEqual(['user: My name is Ann.', 'project: Use tabs.', "project: - Say 'ok'."]);
});

test('a note is changed or taken away, and nothing else of its text, unless that has changed meanwhile', async () => {
  const project = kept('# Ours\n\n* one\r\n- two\n-none\n\nA text without an end');
  const notes = new Notes({ project });
  const [first, second, ...others] = await notes.listed(fail);
  expect(others).toEqual([]);
  await notes.change(second!, ' 2\n');
  await notes.change(first!);
  expect(project.content).toBe('# Ours\n\n- 2\n-none\n\nA text without an end');
  await expect(notes.change(second!)).rejects.toThrow('changed');
  await notes.add('project', 'three');
  expect(project.content).toBe('# Ours\n\n- 2\n-none\n\nA text without an end\n- three\n');
});

test('a note has a length, and all of them have one', async () => {
  const user = kept();
  const notes = new Notes({ user });
  for (const text of ['', ' \n ', 'x'.repeat(MOST_CHARS + 1)]) await expect(notes.add('user', text)).rejects.toThrow('characters');
  for (let n = 0; n < 8; n++) await notes.add('user', '😀'.repeat(n < 7 ? MOST_CHARS : 900));
  const full = user.content;
  await expect(notes.add('user', '😀'.repeat(MOST_CHARS))).rejects.toThrow('32,000 bytes');
  expect(user.content).toBe(full);
});

test('a text that cannot be read is told, and hides no other', async () => {
  const notes = new Notes({ user: kept('- mine\n'), project: { read: () => Promise.reject(new Error('no')), write: async () => {} } });
  const complaints: unknown[] = [];
  expect((await notes.listed((error) => complaints.push(error))).map(({ text }) => text)).toEqual(['mine']);
  expect(complaints).toHaveLength(1);
  expect(await notes.instructions()).toHaveLength(1);
});
