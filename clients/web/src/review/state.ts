import { signal } from '@preact/signals';
import type { Answer } from '@codelab/client';
import type { Change } from '../workspace/changes.ts';

/** A call whose changes are being reviewed. */
export interface Review {
  tool: string;
  args: Record<string, unknown>;
  changes: readonly Change[];
  answer(answer: Answer): void;
}

export const review = signal<Review | undefined>(undefined);
