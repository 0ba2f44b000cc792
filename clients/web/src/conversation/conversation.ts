import { computed, type ReadonlySignal, signal } from '@preact/signals';
import { type Conversation as Source, type ConversationState, SessionError } from '@codelab/client';
import type { Change } from '../workspace/changes.ts';
import type { Folder } from '../workspace/folder.ts';

/** What only this page knows of a call that it has executed. */
export interface Made {
  /** The folder in which this page has made the changes; undefined if they are taken back. */
  folder: Folder | undefined;
}

/** A conversation of the client as signals, so that a view is drawn anew only if what it shows has changed. */
export class Conversation {
  readonly source: Source;
  readonly #state;
  readonly messages;
  readonly turns;
  readonly approvals;
  readonly queue;
  readonly status;
  readonly agent;
  readonly title;
  readonly plan;
  readonly info;
  readonly actingMode;
  readonly usage;
  readonly hasEarlier;
  /** By call. */
  readonly made = signal<ReadonlyMap<string, Made>>(new Map());

  constructor(source: Source) {
    this.source = source;
    this.#state = signal(source.state);
    source.subscribe(() => (this.#state.value = source.state));
    this.messages = this.#signal('messages');
    this.turns = this.#signal('turns');
    this.approvals = this.#signal('approvals');
    this.queue = this.#signal('queue');
    this.status = this.#signal('status');
    this.agent = this.#signal('agent');
    this.title = this.#signal('title');
    this.plan = this.#signal('plan');
    this.info = this.#signal('info');
    this.actingMode = this.#signal('actingMode');
    this.usage = this.#signal('usage');
    this.hasEarlier = this.#signal('hasEarlier');
  }

  #signal<Name extends keyof ConversationState>(name: Name): ReadonlySignal<ConversationState[Name]> {
    return computed(() => this.#state.value[name]);
  }

  /** What the user wanted of the session was refused, or could not be sent. */
  readonly failed = (error: Error): void =>
    this.source.dispatch({ type: 'failed', message: error.message, code: error instanceof SessionError ? error.code : undefined });

  /** This page has executed a call, in a folder. */
  executed(callId: string, changes: readonly Change[], folder: Folder): void {
    this.source.dispatch({ type: 'diffed', callId, diff: changes });
    this.made.value = new Map([...this.made.value, [callId, { folder }]]);
  }

  /** The user has taken back what a call has changed. */
  undone(callId: string): void {
    this.made.value = new Map([...this.made.value, [callId, { folder: undefined }]]);
  }
}
