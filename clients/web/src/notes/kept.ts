import { effect, signal } from '@preact/signals';
import { user } from '../signin/login.ts';
import { folder, version } from '../workspace/open.ts';
import { checkSize, instructionsOf, Notes, type Place, PROJECT } from './notes.ts';

/** Whether the notes are shown. */
export const showsNotes = signal(false);
/** Counts changes of the user's notes, also by other tabs. */
export const notesVersion = signal(0);
/** The open folder's notes, as they were when the page looked last. */
const projects = signal('');

/** The user's notes are in the storage of the browser, which each server's page has for itself: one text for each user. */
const key = () => `codelab.notes.${user.value}`;

function usersText(): string {
  try {
    return localStorage.getItem(key()) ?? '';
  } catch {
    return ''; // The browser may refuse storage.
  }
}

const ofUser: Place = {
  read: async () => usersText(),
  write: async (content) => {
    if (content) localStorage.setItem(key(), content);
    else localStorage.removeItem(key());
    notesVersion.value++;
  },
};

const ofProject: Place = {
  read: async () => {
    const from = folder.value;
    if (!from || !(await from.has(PROJECT))) return '';
    const { content, size } = await from.read(PROJECT);
    checkSize(size);
    return content;
  },
  write: async (content) => {
    await folder.value!.write(PROJECT, content);
    projects.value = content;
    version.value++;
  },
};

/** The notes that there are now: the project's only with an open folder. */
export function keptNotes(): Notes {
  return new Notes({ user: ofUser, ...(folder.value && { project: ofProject }) });
}

/** What the server is to be told of them. */
export function noted(): { path: string; content: string }[] {
  return instructionsOf({ user: usersText(), project: folder.value && projects.value });
}

function look(): void {
  const from = folder.peek();
  ofProject.read().then(
    (content) => from === folder.peek() && (projects.value = content),
    () => from === folder.peek() && (projects.value = ''),
  );
}

/** Follow what changes the notes: another folder, the agent, another tab, another program while nobody looked at the page. */
export function followNotes(): void {
  effect(() => {
    void version.value;
    void folder.value;
    look();
  });
  addEventListener('focus', look);
  addEventListener('storage', ({ key: changed }) => {
    if (changed === null || changed.startsWith('codelab.notes.')) notesVersion.value++;
  });
}
