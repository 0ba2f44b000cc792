/**
 * Notes: what a user wants agents to keep in mind, in one project or in all of them. They are the lines `- …` of two Markdown
 * texts, the same as the terminal's (clients/codelab_client/codelab_client/notes.py). Only what the user has typed is
 * written into them.
 */

export type Scope = 'user' | 'project';

/** The project's file, in the workspace. */
export const PROJECT = '.codelab/notes.md';
/** The path of the user's text for the model, which cannot read it by a call. */
export const USERS_PATH = 'notes of the user.md';
/** Characters of a note, and bytes of a text. */
export const MOST_CHARS = 1_000;
export const MOST_BYTES = 32_000;
const SCOPES = ['user', 'project'] as const;

/** Where a text is kept. Both throw an Error that says, for people, why it cannot be. */
export interface Place {
  /** Empty if there is none. */
  read(): Promise<string>;
  write(content: string): Promise<void>;
}

/** A note, with the line of its text, from 0 on. */
export interface Note {
  scope: Scope;
  text: string;
  line: number;
}

/** A note cannot be kept or changed. The page has the words for each `code` in its languages. */
export class NoteRefused extends Error {
  readonly code: 'note_length' | 'notes_full' | 'notes_changed';

  constructor(code: NoteRefused['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export class Notes {
  readonly places: { readonly [scope in Scope]?: Place };

  constructor(places: { readonly [scope in Scope]?: Place }) {
    this.places = places;
  }

  /** The user's, then the project's. `complain` is told which text cannot be read. */
  async listed(complain: (error: unknown) => void): Promise<Note[]> {
    const notes: Note[] = [];
    for (const scope of SCOPES) {
      try {
        notes.push(...notesIn(scope, (await this.places[scope]?.read()) ?? ''));
      } catch (error) {
        complain(error);
      }
    }
    return notes;
  }

  /** Add a note. Throws a NoteRefused. */
  async add(scope: Scope, text: string): Promise<void> {
    const place = this.places[scope]!;
    const note = checked(text);
    const content = await place.read();
    const separator = content === '' || content.endsWith('\n') ? '' : '\n';
    await write(place, `${content}${separator}- ${note}\n`);
  }

  /** Give a note that was listed another text; without one, take it away. Throws a NoteRefused. */
  async change(note: Note, text?: string): Promise<void> {
    const place = this.places[note.scope];
    const lines = ((await place?.read()) ?? '').split('\n');
    if (!place || textOf(lines[note.line] ?? '') !== note.text) throw new NoteRefused('notes_changed', 'The notes have changed meanwhile: look at them again');
    lines.splice(note.line, 1, ...(text === undefined ? [] : [`- ${checked(text)}`]));
    await write(place, lines.join('\n'));
  }

  /** The texts that say something, as `hello` brings them (docs/protocol.md, "Instructions of the project"). */
  async instructions(): Promise<{ path: string; content: string }[]> {
    const contents = await Promise.all(SCOPES.map(async (scope) => [scope, await this.places[scope]?.read().catch(() => '')] as const));
    return instructionsOf(Object.fromEntries(contents));
  }
}

/** The same of contents that are known. */
export function instructionsOf(contents: { readonly [scope in Scope]?: string | undefined }): { path: string; content: string }[] {
  return SCOPES.flatMap((scope) => {
    const content = contents[scope] ?? '';
    return content.trim() ? [{ path: scope === 'user' ? USERS_PATH : PROJECT, content }] : [];
  });
}

export function notesIn(scope: Scope, content: string): Note[] {
  return content.split('\n').flatMap((one, line) => {
    const text = textOf(one);
    return text ? [{ scope, text, line }] : [];
  });
}

/** Why a text of so many bytes is refused, or nothing. */
export function checkSize(bytes: number): void {
  if (bytes > MOST_BYTES) throw new NoteRefused('notes_full', 'Notes have at most 32,000 bytes');
}

async function write(place: Place, content: string): Promise<void> {
  checkSize(new TextEncoder().encode(content).length);
  await place.write(content);
}

/** A note as it is kept: one line. */
function checked(text: string): string {
  const note = text.split(/\s+/).filter(Boolean).join(' ').replace(/\p{Surrogate}/gu, '\ufffd'); // halves are no UTF-8
  if (!note || [...note].length > MOST_CHARS) throw new NoteRefused('note_length', 'A note has 1 to 1,000 characters');
  return note;
}

/** The note in a line, empty if it is none. */
function textOf(line: string): string {
  return /^[-*][ \t]+(\S[^\n]*)$/.exec(line.trimEnd())?.[1] ?? '';
}
