import { batch, signal } from '@preact/signals';
import type { ActingMode, Answer, HistoryMessage, Outcome, SessionEvent, SessionInfoFrame, Status, ToolCallDraftFrame, ToolCallFrame } from '@codelab/client';
import type { Change } from '../workspace/changes.ts';
import type { Folder } from '../workspace/folder.ts';
import { type Attached, type CallView, callEntry, type Entry, type PlanStep, type Queued } from './entries.ts';

/** Characters of a running command's output that are kept. */
const OUTPUT_CHARS = 20_000;

/** Codes of refusals that the same message may not meet again. */
const PASSING: ReadonlySet<string> = new Set(['BUSY', 'DATABASE_ERROR', 'RATE_LIMITED']);

const ACTING_MODES: readonly string[] = ['manual', 'code', 'autonomous'] satisfies ActingMode[];

/** The server tells so many characters of a message that waits. */
const PREVIEW_CHARS = 200;

type EntryOf<Kind extends Entry['kind']> = Extract<Entry, { kind: Kind }>;

/**
 * What one session says, as entries: the history of turns that are over, then the frames. A frame of such a turn only
 * completes what the history shows. No I/O.
 */
export class Conversation {
  readonly entries = signal<readonly Entry[]>([]);
  readonly queue = signal<readonly Queued[]>([]);
  readonly status = signal<Status>('idle');
  readonly agent = signal('');
  readonly title = signal('');
  readonly plan = signal<readonly PlanStep[]>([]);
  readonly info = signal<SessionInfoFrame | undefined>(undefined);
  /** The mode in which the agent acts, now or after `ask` and `plan`. */
  readonly actingMode = signal<ActingMode>('code');
  readonly tokens = signal(0);
  readonly contextUsed = signal<number | undefined>(undefined);
  readonly cost = signal<number | undefined>(undefined);
  /** The turn whose frames come now. */
  #turnId = '';
  #discarded = 0;
  /** The message whose calls are being written, and its turn; and the one whose drafts are over. */
  #drafting = { messageId: '', turnId: '' };
  #drafted = '';
  readonly #known = new Map<string, Entry>();
  /** Turns that the history tells completely. */
  readonly #told = new Set<string>();

  /** Begin with the history, but for what the running turn has done: its frames tell that. */
  begin(messages: readonly HistoryMessage[], runningTurn: string | undefined): void {
    this.#over(messages, runningTurn);
    const over = messages.filter((message) => text(message['turn_id']) !== runningTurn || !runningTurn);
    this.#beginWith(over.flatMap((message) => this.#fromHistory(message, text(message['turn_id']))));
  }

  /** Begin again, because frames are missing that the log has no more. What is shown of the running turn stays. */
  beginAgain(messages: readonly HistoryMessage[], runningTurn: string | undefined): void {
    this.#over(messages, runningTurn);
    const made = messages.flatMap((message) => {
      const turnId = text(message['turn_id']);
      return this.#fromHistory(message, turnId, runningTurn !== undefined && turnId === runningTurn);
    });
    const keys = new Set(made.map((entry) => entry.key));
    // A turn may have begun since the server was asked which one runs.
    const running = new Set([runningTurn, this.#turnId].filter((turn) => turn && !this.#told.has(turn)));
    const goesOn = (entry: Entry) => (entry.kind === 'user' && entry.state.value === 'sending') || running.has(entry.turnId);
    this.#beginWith([...made, ...this.entries.value.filter((entry) => goesOn(entry) && !keys.has(entry.key))]);
  }

  /** All turns of the history but the running one are over, and told. */
  #over(messages: readonly HistoryMessage[], runningTurn: string | undefined): void {
    for (const message of messages) {
      const turnId = text(message['turn_id']);
      if (turnId && turnId !== runningTurn) this.#told.add(turnId);
    }
  }

  #beginWith(entries: readonly Entry[]): void {
    for (const entry of entries) this.#known.set(entry.key, entry);
    this.entries.value = entries;
  }

  /** Put an earlier page of the history before everything else. */
  prepend(messages: readonly HistoryMessage[]): void {
    const made = messages.flatMap((message) => this.#fromHistory(message, text(message['turn_id'])));
    for (const entry of made) this.#known.set(entry.key, entry);
    this.entries.value = [...made, ...this.entries.value];
  }

  /** The user sends a message. */
  said(id: string, content: string, attached: readonly Attached[]): void {
    this.#add({ kind: 'user', key: id, text: content, attached, state: signal('sending'), isWhole: true });
  }

  /** The server has a message, or refuses it. */
  accepted(id: string): void {
    const entry = this.#get(id, 'user');
    if (entry) entry.state.value = 'sent';
  }

  /** `retryAt`: when it may be sent again (milliseconds since the epoch); undefined if the server does not say so. */
  refused(id: string, why: string, code: string, retryAt: number | undefined): void {
    this.accepted(id);
    const said = this.#get(id, 'user');
    const isPassing = retryAt !== undefined || PASSING.has(code);
    const again = said && isPassing ? { text: said.text, attached: said.attached, ...(retryAt !== undefined && { at: retryAt }) } : undefined;
    this.#add({ kind: 'error', key: `refused-${id}`, turnId: '', text: why, code, again });
  }

  /** What the user wanted of the session was refused, or could not be sent. */
  readonly failed = (error: Error & { code?: string | undefined }): void =>
    this.#add({ kind: 'error', key: `failed-${this.#discarded++}`, turnId: '', text: error.message, code: error.code ?? '' });

  /** This page decides about a call. `changes`: what it would change, as the user has seen it. */
  decided(callId: string, answer: Answer, changes: readonly Change[] | undefined): void {
    const edited = answer.decision === 'edit' ? answer.arguments : undefined;
    this.#update(callId, { decided: true, decision: answer.decision, edited, ...(changes && { changes }) });
  }

  /** The server has this page's rejection. It tells so in a `call_update` too, but only when the other calls of the step are settled. */
  rejected(callId: string, feedback: string | undefined): void {
    if (this.#get(callId, 'call')?.call.value.state === 'asking') this.#update(callId, { state: 'rejected', decided: false, feedback });
  }

  /** This page has executed a call, in a folder. */
  made(callId: string, changes: readonly Change[], madeIn: Folder): void {
    this.#update(callId, { changes, madeIn });
  }

  /** The user has taken back what a call has changed. */
  undone(callId: string): void {
    this.#update(callId, { madeIn: undefined, isUndone: true });
  }

  take(event: SessionEvent): void {
    batch(() => this.#take(event));
  }

  #take(event: SessionEvent): void {
    if ('turn_id' in event && typeof event.turn_id === 'string') this.#turnId = event.turn_id;
    const isTold = this.#told.has(this.#turnId);
    this.#endDrafts(event);
    switch (event.type) {
      case 'tool_call_draft':
        return isTold ? undefined : this.#draft(event);
      case 'user_message':
        return this.#userMessage(event);
      case 'withdrawn':
        this.queue.value = this.queue.value.filter((one) => !event.client_msg_ids.includes(one.id));
        return;
      case 'assistant_thought': {
        if (isTold) return;
        const key = `thought-${event.message_id}`;
        let entry = this.#get(key, 'thought');
        if (!entry) {
          entry = { kind: 'thought', key, turnId: event.turn_id, text: signal('') };
          this.#add(entry);
        }
        entry.text.value += event.content;
        return;
      }
      case 'assistant_message': {
        if (isTold) return;
        const entry = this.#get(event.message_id, 'assistant') ?? this.#message(event.message_id, event.turn_id, event.agent);
        if (event.aborted) return this.#remove(event.message_id);
        if (entry.final.value) return; // the history had it before its last frame came
        if (event.token) entry.text.value += event.token;
        if (event.is_final) entry.final.value = true;
        return;
      }
      case 'message_discarded':
        this.#remove(`thought-${event.message_id}`);
        return this.#remove(event.message_id);
      case 'tool_call':
        return this.#call(event);
      case 'tool_progress':
        return this.#output(event.call_id, event.result);
      case 'call_started':
        return this.#update(event.callId, { state: 'running', decided: false });
      case 'call_output':
        return this.#append(event.callId, event.stdout + event.stderr);
      case 'call_finished':
        return this.#update(event.callId, { state: event.outcome.error ? 'failed' : 'completed', outcome: event.outcome });
      case 'call_update':
        return this.#settled(event);
      case 'agent_status':
        this.status.value = event.status;
        return;
      case 'agent_switched':
        this.agent.value = event.to_agent;
        if (isTold || this.#known.has(`switch-${event.seq}`)) return;
        return this.#add({
          kind: 'switched',
          key: `switch-${event.seq}`,
          turnId: this.#turnId,
          from: event.from_agent,
          to: event.to_agent,
          reason: event.reason,
        });
      case 'mode_switched':
        if (!this.info.value || (event.seq ?? 0) <= this.info.value.last_seq) return;
        this.info.value = { ...this.info.value, mode: event.to_mode };
        this.#acts(event.to_mode);
        return;
      case 'plan':
        this.plan.value = event.items;
        return;
      case 'error':
        // A refusal is told to whoever sent the frame, unless it names a call.
        if (event.call_id) this.#update(event.call_id, { decided: false });
        else if (event.seq === undefined) return;
        if (event.seq !== undefined && (isTold || this.#known.has(`error-${event.seq}`))) return;
        return this.#add({
          kind: 'error',
          key: `error-${event.seq ?? `${event.call_id}-${this.#discarded++}`}`,
          turnId: this.#turnId,
          text: event.message,
          code: event.error_code,
        });
      case 'queued':
        return this.#queued(event.client_msg_id, event.position, event.preview ?? '');
      case 'compacted': {
        const key = `compacted-${event.seq}`;
        if (this.#known.has(key)) return;
        return this.#add({ kind: 'compacted', key, turnId: '', outcome: event.outcome, before: event.tokens_before, after: event.tokens_after });
      }
      case 'turn_end':
        return this.#turnEnd(event);
      case 'session_info':
        this.info.value = event;
        this.status.value = event.status;
        this.agent.value = event.agent;
        this.title.value = event.title;
        this.plan.value = event.plan;
        // In `ask` and `plan`, the older name of the setting tells in which mode the agent acted before.
        this.#acts(event.settings['autonomy'] === 'balanced' ? 'code' : event.settings['autonomy']);
        this.#acts(event.mode);
        this.#queueOf(event);
        return;
      default:
    }
  }

  #acts(mode: unknown): void {
    if (ACTING_MODES.includes(String(mode))) this.actingMode.value = mode as ActingMode;
  }

  #turnEnd(event: Extract<SessionEvent, { type: 'turn_end' }>): void {
    // One that is told again, to a page that was opened later, says what the title was then.
    const isNews = (event.seq ?? Infinity) > (this.info.value?.last_seq ?? 0);
    if (event.title && isNews) this.title.value = event.title;
    const key = `end-${event.turn_id}`;
    if (!this.#known.has(key)) {
      const { usage } = event;
      this.tokens.value += (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0);
      if (usage.cost_usd != null) this.cost.value = (this.cost.value ?? 0) + usage.cost_usd;
      const entry: Entry = { kind: 'end', key, turnId: event.turn_id, reason: event.reason, usage };
      if (this.#told.has(event.turn_id)) this.#insertAfterTurn(entry);
      else this.#add(entry);
    }
    if (event.context_used != null) this.contextUsed.value = event.context_used;
    // What was not settled before the end never will be.
    for (const entry of this.entries.value) {
      if (entry.kind !== 'call' || entry.turnId !== event.turn_id) continue;
      if (['asking', 'approved', 'running', 'elsewhere'].includes(entry.call.value.state)) {
        this.#update(entry.key, { state: event.reason === 'cancelled' ? 'cancelled' : 'completed' });
      }
    }
  }

  #message(id: string, turnId: string, agent: string | undefined): EntryOf<'assistant'> {
    const made: EntryOf<'assistant'> = {
      kind: 'assistant',
      key: id,
      turnId,
      text: signal(''),
      final: signal(false),
      agent: agent ?? '',
    };
    this.#add(made);
    return made;
  }

  /** A message of the user as the log has it, from this window or another one. */
  #userMessage(event: Extract<SessionEvent, { type: 'user_message' }>): void {
    const id = event.client_msg_id;
    this.queue.value = this.queue.value.filter((one) => one.id !== id);
    if (this.#known.has(id)) {
      const said = this.#get(id, 'user');
      if (said) said.turnId = event.turn_id;
      if (said && event.attachments?.length && !said.attached.length) said.isWhole = false;
      if (!this.entries.value.some((entry) => entry.key === id)) this.#toEnd(id);
      return this.accepted(id);
    }
    if (this.#told.has(event.turn_id)) return;
    const words = event.content ?? '…';
    const isWhole = event.content !== undefined && !event.attachments?.length;
    this.#add({ kind: 'user', key: id, turnId: event.turn_id, text: words, attached: [], state: signal('sent'), isWhole });
  }

  #call(frame: ToolCallFrame): void {
    const state = frame.requires_approval ? 'asking' : frame.execute === false ? 'elsewhere' : 'approved';
    const entry = this.#get(frame.call_id, 'call');
    if (!entry) return this.#add(callEntry(frame, state));
    const { call } = entry;
    const settled = ['completed', 'failed', 'rejected', 'expired', 'cancelled', 'running'].includes(call.value.state);
    call.value = { ...call.value, frame, ...(!settled && { state, decided: false }) };
  }

  /** A call that is being written: what was known of it, and of later ones, is replaced. See docs/protocol.md. */
  #draft(frame: ToolCallDraftFrame): void {
    const { message_id: messageId, turn_id: turnId, index } = frame;
    if (messageId === this.#drafted) return; // it is late
    if (messageId !== this.#drafting.messageId) this.#removeDrafts(0);
    this.#drafting = { messageId, turnId };
    this.#removeDrafts(frame.withdrawn ? index : index + 1);
    if (frame.withdrawn) return;
    const key = `draft-${messageId}-${index}`;
    const entry = this.#get(key, 'draft');
    if (entry) entry.draft.value = frame;
    else this.#add({ kind: 'draft', key, turnId, draft: signal(frame) });
  }

  /** Remove the drafts if an event tells more than they do, or that their answer is void. */
  #endDrafts(event: SessionEvent): void {
    const { messageId, turnId } = this.#drafting;
    if (!messageId) return;
    const isOver =
      ((event.type === 'tool_call' || event.type === 'turn_end') && event.turn_id === turnId) ||
      (event.type === 'agent_status' && event.status !== 'thinking') ||
      (event.type === 'message_discarded' && event.message_id === messageId) ||
      ((event.type === 'assistant_message' || event.type === 'assistant_thought') && event.message_id !== messageId);
    if (isOver || event.type === 'offline' || event.type === 'busy') this.#removeDrafts(0);
    if (!isOver) return;
    this.#drafted = messageId;
    this.#drafting = { messageId: '', turnId: '' };
  }

  #removeDrafts(from: number): void {
    for (const entry of this.entries.value) {
      if (entry.kind === 'draft' && entry.draft.value.index >= from) this.#remove(entry.key);
    }
  }

  /** What became of a call. A result that this page has is not sent to it. */
  #settled(event: Extract<SessionEvent, { type: 'call_update' }>): void {
    const entry = this.#get(event.call_id, 'call');
    if (!entry) return;
    const { frame, outcome, edited } = entry.call.value;
    // Whoever settles a call is told only its state.
    const args = event.arguments ?? (event.state === 'completed' && !event.decision ? edited : undefined);
    const told = event.error ? { error: event.error } : 'result' in event ? { result: event.result } : undefined;
    this.#update(event.call_id, {
      state: event.state,
      decided: false,
      outcome: outcome ?? (told as Outcome | undefined),
      ...(event.decision && { decision: event.decision }),
      ...(event.feedback && { feedback: event.feedback }),
      ...(args && { frame: { ...frame, arguments: args } }),
    });
  }

  #output(callId: string, piece: unknown): void {
    if (typeof piece !== 'object' || piece === null) return;
    const { stdout, stderr } = piece as Record<string, unknown>;
    this.#append(callId, text(stdout) + text(stderr));
  }

  #append(callId: string, more: string): void {
    const entry = this.#get(callId, 'call');
    if (entry) this.#update(callId, { output: (entry.call.value.output + more).slice(-OUTPUT_CHARS) });
  }

  #update(callId: string, change: Partial<CallView>): void {
    const entry = this.#get(callId, 'call');
    if (entry) entry.call.value = { ...entry.call.value, ...change };
  }

  #queued(id: string, position: number, preview: string): void {
    const entry = this.#get(id, 'user');
    if (this.#told.has(entry?.turnId ?? '')) return; // the log tells that it once waited; the history has its place
    if (!entry && this.queue.value.some((one) => one.id === id)) return;
    const words = entry?.text ?? preview;
    this.entries.value = this.entries.value.filter((one) => one.key !== id);
    this.queue.value = [...this.queue.value.filter((one) => one.id !== id), { id, text: words, position, isWhole: entry !== undefined || words.length < PREVIEW_CHARS }].sort(
      (one, other) => one.position - other.position,
    );
  }

  #queueOf(info: SessionInfoFrame): void {
    this.queue.value = info.queued.map((one, index) => ({
      id: one.client_msg_id,
      text: this.#get(one.client_msg_id, 'user')?.text ?? one.preview,
      position: index + 1,
      isWhole: this.#get(one.client_msg_id, 'user') !== undefined || one.preview.length < PREVIEW_CHARS,
    }));
  }

  /** `goesOn`: its turn is running. Its calls stay as they are shown; others wait, or run elsewhere, until it is said. */
  #fromHistory(message: HistoryMessage, turnId: string, goesOn = false): Entry[] {
    const id = text(message['message_id']) || message.id;
    if (message.role === 'tool') {
      const known = this.#get(text(message['call_id']), 'call');
      if (!known) return [];
      const settles = ['asking', 'approved', 'elsewhere'].includes(known.call.value.state);
      this.#update(known.key, { shown: message.content, ...(settles && { state: 'completed' as const }) });
      return [];
    }
    if (message.role === 'user') {
      return [{ kind: 'user', key: id, turnId, text: message.content, attached: [], state: signal('sent'), isWhole: true }];
    }
    const made: Entry[] = [];
    if (message.role === 'assistant') {
      const words = { text: signal(message.content), final: signal(true) };
      if (message.content) made.push({ kind: 'assistant', key: id, turnId, agent: text(message['agent']), ...words });
      for (const call of (message['calls'] ?? []) as { call_id: string; tool_name: string; arguments?: Record<string, unknown> }[]) {
        const frame = { type: 'tool_call', requires_approval: false, turn_id: turnId, ...call } as ToolCallFrame;
        const entry = (goesOn && this.#get(call.call_id, 'call')) || callEntry(frame, goesOn ? 'elsewhere' : 'completed');
        this.#known.set(entry.key, entry);
        made.push(entry);
      }
    }
    return made;
  }

  #get<Kind extends Entry['kind']>(key: string, kind: Kind): EntryOf<Kind> | undefined {
    const entry = this.#known.get(key);
    return entry?.kind === kind ? (entry as EntryOf<Kind>) : undefined;
  }

  #add(entry: Entry): void {
    this.#known.set(entry.key, entry);
    this.entries.value = [...this.entries.value, entry];
  }

  #toEnd(key: string): void {
    const entry = this.#known.get(key);
    if (entry) this.entries.value = [...this.entries.value.filter((one) => one.key !== key), entry];
  }

  #remove(key: string): void {
    this.#known.delete(key);
    this.entries.value = this.entries.value.filter((entry) => entry.key !== key);
  }

  #insertAfterTurn(entry: Entry): void {
    const all = [...this.entries.value];
    const last = all.findLastIndex((one) => one.turnId === entry.turnId);
    this.#known.set(entry.key, entry);
    if (last >= 0) this.entries.value = [...all.slice(0, last + 1), entry, ...all.slice(last + 1)];
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
