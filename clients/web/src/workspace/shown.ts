import { signal } from '@preact/signals';

/** The file in the editor, and the line to go to. */
export const shown = signal<{ path: string; line?: number | undefined } | undefined>(undefined);
