import { type Signal, signal } from '@preact/signals';
import type { CompactedFrame, Outcome, PlanStep, ToolCallDraftFrame, ToolCallFrame } from '@codelab/client';
import type { Change } from '../workspace/changes.ts';
import type { Folder } from '../workspace/folder.ts';

export interface Image {
  name: string;
  /** A data: URL. */
  url: string;
}

/** What comes with a message. */
export type Attached = Image | { name: string; text: string };

/** What the conversation shows, one below the other. Each has a signal, so that a token redraws one entry. */
export type Entry =
  | {
      kind: 'user';
      key: string;
      turnId?: string | undefined;
      text: string;
      attached: readonly Attached[];
      state: Signal<'sending' | 'sent'>;
      /** Whether this page has all of it, so that it could be sent again. */
      isWhole: boolean;
    }
  | { kind: 'assistant'; key: string; turnId: string; text: Signal<string>; final: Signal<boolean>; agent: string }
  | { kind: 'thought'; key: string; turnId: string; text: Signal<string> }
  | { kind: 'draft'; key: string; turnId: string; draft: Signal<ToolCallDraftFrame> }
  | { kind: 'call'; key: string; turnId: string; call: Signal<CallView> }
  | { kind: 'switched'; key: string; turnId: string; from: string; to: string; reason: string }
  | { kind: 'error'; key: string; turnId: string; text: string; code: string; again?: Again | undefined }
  | { kind: 'compacted'; key: string; turnId: string; outcome: CompactedFrame['outcome']; before: number; after: number }
  | { kind: 'end'; key: string; turnId: string; reason: string; usage: Usage };

/** A message that may be sent once more, from a time on (milliseconds since the epoch). An empty text: the turn goes on. */
export interface Again {
  text: string;
  attached: readonly Attached[];
  at?: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  llm_calls: number;
  cost_usd?: number | null;
}

export type CallState =
  | 'asking'
  | 'approved'
  | 'running'
  | 'elsewhere'
  | 'completed'
  | 'failed'
  | 'rejected'
  | 'expired'
  | 'cancelled';

export interface CallView {
  frame: ToolCallFrame;
  state: CallState;
  /** The newest output of a command. */
  output: string;
  outcome?: Outcome | undefined;
  /** What the model saw of the result, from the history. */
  shown?: string | undefined;
  /** What a human decided about it, and said. */
  decision?: 'approve' | 'edit' | 'reject' | undefined;
  feedback?: string | undefined;
  /** The arguments that the user of this page has put in place of the agent's. */
  edited?: Record<string, unknown> | undefined;
  /** What it would change, as a human was shown it here; once it is executed here, what it has changed. */
  changes?: readonly Change[] | undefined;
  /** The folder in which this page has made the changes; undefined if it has not, or if they are taken back. */
  madeIn?: Folder | undefined;
  isUndone?: boolean | undefined;
  /** A decision of this page is on its way. */
  decided?: boolean | undefined;
}

export interface Queued {
  id: string;
  text: string;
  position: number;
  /** Whether that is all of the text: of a message of another window, the server tells the beginning. */
  isWhole: boolean;
}

export type { PlanStep };

export function callEntry(frame: ToolCallFrame, state: CallState): Extract<Entry, { kind: 'call' }> {
  return {
    kind: 'call',
    key: frame.call_id,
    turnId: frame.turn_id ?? '',
    call: signal({ frame, state, output: '' }),
  };
}

/** What tries again if the last message was refused for now, or the model failed in the last turn. */
export function retryOf(entries: readonly Entry[]): Again | undefined {
  let failed = false;
  let called = false;
  for (const entry of entries.toReversed()) {
    if (entry.kind === 'error' && entry.again && !failed) return entry.again;
    if (entry.kind === 'error' && entry.code === 'LLM_ERROR') failed = true;
    else if (!failed && entry.kind !== 'end' && entry.kind !== 'compacted') return undefined;
    else if (entry.kind === 'call') called = true;
    else if (entry.kind === 'user') return called ? { text: '', attached: [] } : entry;
  }
  return undefined;
}
