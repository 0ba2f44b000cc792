import { signal } from '@preact/signals';
import type { Change } from './changes.ts';
import type { Dialogue } from './file_tools.ts';
import type { FilePatch } from './patches.ts';

/** What a tool asks the user. */
export type Question =
  | { kind: 'choose'; message: string; actions: readonly string[]; answer(action: string | undefined): void }
  | { kind: 'confirm'; message: string; changes: readonly Change[]; answer(yes: boolean | undefined): void }
  | { kind: 'review'; message: string; files: readonly FilePatch[]; answer(chunks: ReadonlySet<number> | undefined): void };

/** The questions that wait, oldest first. */
export const questions = signal<readonly Question[]>([]);

function ask<Answer>(make: (answer: (value: Answer | undefined) => void) => Question, aborted: AbortSignal): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const end = () => (questions.value = questions.value.filter((one) => one !== question));
    const question = make((value) => {
      end();
      resolve(value);
    });
    aborted.addEventListener('abort', () => {
      end();
      reject(aborted.reason);
    });
    questions.value = [...questions.value, question];
  });
}

export const dialogue: Dialogue = {
  choose: (message, actions, aborted) => ask<string>((answer) => ({ kind: 'choose', message, actions, answer }), aborted),
  confirm: (message, changes, aborted) => ask<boolean>((answer) => ({ kind: 'confirm', message, changes, answer }), aborted),
  review: (message, files, aborted) =>
    ask<ReadonlySet<number>>((answer) => ({ kind: 'review', message, files, answer }), aborted),
};
