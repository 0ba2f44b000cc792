import type { SessionEvent, SessionEventOf } from "./events.ts";
import type { Outcome } from "./journal.ts";
import type { Attachment, ErrorCode, SessionInfoFrame, ToolCallDraftFrame, ToolCallFrame } from "./protocol.ts";
import type { ActingMode, Answer } from "./session.ts";
import type {
  AssistantMessage,
  CallPart,
  CallState,
  ConversationState,
  FileChange,
  Memory,
  Message,
  Part,
  QueuedPrompt,
  SubagentPart,
  SystemMessage,
  TurnState,
  UserMessage,
} from "./state.ts";

/** What the state learns beside the session's events: what the user does here, and what the history has. */
export type Action =
  /** The user sends a message. */
  | { type: "prompted"; id: string; text: string; attachments?: readonly Attachment[] }
  | { type: "prompt_accepted"; id: string }
  /** `retryAt`: when it may be sent again, in milliseconds since the epoch. */
  | { type: "prompt_refused"; id: string; message: string; code?: ErrorCode | undefined; retryAt?: number | undefined }
  /** The user decides about a call. */
  | { type: "decided"; callId: string; answer: Answer }
  /** The server has that decision. */
  | { type: "decision_accepted"; callId: string; answer: Answer }
  /** What a call would change, or has changed. */
  | { type: "diffed"; callId: string; diff: readonly FileChange[] }
  /** What the user wanted was refused, or could not be sent. */
  | { type: "failed"; message: string; code?: ErrorCode | undefined }
  | { type: "titled"; title: string }
  /** @internal The history tells of something that the agent did. */
  | { type: "told"; turnId: string; part: Part };

/** Characters of a running command's output that are kept. */
const OUTPUT_CHARS = 20_000;
/** The server tells so many characters of a message that waits. */
const PREVIEW_CHARS = 200;
/** Codes of refusals that the same message may not meet again. */
const PASSING: readonly (string | undefined)[] = ["BUSY", "DATABASE_ERROR", "RATE_LIMITED"];
const ACTING_MODES: readonly unknown[] = ["manual", "code", "autonomous"] satisfies ActingMode[];
const OPEN: readonly CallState[] = ["asking", "approved", "running", "elsewhere"];

type State = ConversationState;

/**
 * The state after an event of the session or an action. Pure: the same state and event give the same. Events come in the
 * session's order, from the first frame of the log that the history does not tell; those that come again change nothing.
 */
export function reduce(state: State, event: SessionEvent | Action): State {
  const seq = "seq" in event ? event.seq : undefined;
  if (seq !== undefined && event.type !== "tool_call") {
    if (seq <= state.lastSeq) return state;
    state = { ...state, lastSeq: seq };
  }
  state = inTurn(state, event);
  return next(endDrafts(state, event), event, seq);
}

/** Know the turn to which the frames belong that come now. */
function inTurn(state: State, event: SessionEvent | Action): State {
  const turnId = "turn_id" in event && event.type !== "ack" ? event.turn_id : undefined;
  if (typeof turnId !== "string" || turnId === state.memory.turnId) return state;
  state = remembering(state, { turnId });
  return state.turns.findLast((turn) => turn.id === turnId) ? state : withTurn(state, { id: turnId, isOver: false });
}

function next(state: State, event: SessionEvent | Action, seq: number | undefined): State {
  const { turnId } = state.memory;
  switch (event.type) {
    case "assistant_message": {
      if (isTold(state, event.turn_id, seq)) return state;
      const { message_id: id, agent = "", is_final: isFinal } = event;
      const part = partOf(state, id, "text");
      if (event.aborted) return removed(state, id, "text");
      if (part?.isFinal) return state; // the history had it before its last frame came
      return put(state, event.turn_id, { type: "text", id, agent, ...part, text: (part?.text ?? "") + (event.token ?? ""), isFinal });
    }
    case "assistant_thought": {
      if (isTold(state, event.turn_id, seq)) return state;
      const id = `thought-${event.message_id}`;
      const text = partOf(state, id, "thought")?.text ?? "";
      return put(state, event.turn_id, { type: "thought", id, text: text + event.content });
    }
    case "message_discarded":
      return removed(removed(state, `thought-${event.message_id}`), event.message_id);
    case "tool_call_draft":
      return isTold(state, event.turn_id, seq) ? state : drafted(state, event);
    case "user_message":
      return logged(state, event, seq);
    case "tool_call":
      return called(state, event);
    case "tool_progress": {
      const { stdout, stderr } = (event.result ?? {}) as Record<string, unknown>;
      return withOutput(state, event.call_id, textOf(stdout) + textOf(stderr));
    }
    case "call_started":
      return withCall(state, event.callId, { state: "running", isDeciding: false });
    case "call_output":
      return withOutput(state, event.callId, event.stdout + event.stderr);
    case "call_finished":
      return withCall(state, event.callId, { state: event.outcome.error ? "failed" : "completed", outcome: event.outcome });
    case "call_update":
      return settled(state, event);
    case "subagent_update":
      return delegated(state, event);
    case "agent_status":
      return { ...state, status: event.status };
    case "agent_switched": {
      state = { ...state, agent: event.to_agent };
      const { from_agent: from, to_agent: to, reason } = event;
      return isTold(state, turnId, seq) ? state : added(state, { type: "switch", id: `switch-${seq}`, from, to, reason });
    }
    case "mode_switched":
      if (!state.info || (seq ?? 0) <= state.info.last_seq) return state;
      return acting({ ...state, info: { ...state.info, mode: event.to_mode } }, event.to_mode);
    case "plan": {
      state = { ...state, plan: event.items };
      if (isTold(state, event.turn_id, seq)) return state;
      const id = `plan-${event.turn_id}`;
      const isPlan = event.items.length || partOf(state, id, "plan");
      return isPlan ? put(state, event.turn_id, { type: "plan", id, items: event.items }) : state;
    }
    case "error": {
      // A refusal is told to whoever sent the frame, unless it names a call.
      if (event.call_id) state = withCall(state, event.call_id, { isDeciding: false });
      else if (seq === undefined) return state;
      if (seq !== undefined && isTold(state, turnId, seq)) return state;
      const { message, error_code: code } = event;
      return added(state, { type: "error", id: `error-${seq ?? state.memory.made}`, message, code });
    }
    case "queued":
      return queued(state, event);
    case "withdrawn":
      return unqueued(state, event.client_msg_ids);
    case "compacted": {
      if ((seq ?? Infinity) <= state.memory.historySeq) return state;
      const { outcome, tokens_before: before, tokens_after: after } = event;
      return beside(state, { type: "compacted", id: `compacted-${seq}`, outcome, before, after });
    }
    case "turn_end":
      return ended(state, event);
    case "session_info": {
      const { status, agent, title, plan, mode } = event;
      // In `ask` and `plan`, the older name of the setting tells in which mode the agent acted before.
      const before = event.settings?.["autonomy"];
      state = acting(acting(state, before === "balanced" ? "code" : before), mode);
      return { ...state, info: event, status, agent, title, plan, queue: queueOf(state, event) };
    }
    case "resync_required": // an earlier one is that of another session with this id
      return { ...state, isStale: true, lastSeq: event.last_seq < state.lastSeq ? 0 : event.last_seq };
    case "online":
      return { ...state, connection: { state: "online" } };
    case "offline":
    case "busy":
    case "ended": {
      const { type, ...connection } = event;
      return { ...state, connection: { state: type, ...connection } };
    }
    case "prompted": {
      const { id, text, attachments = [] } = event;
      return pushed(state, { role: "user", id, turnId: undefined, text, attachments, state: "sending", isWhole: true });
    }
    case "prompt_accepted":
      return withUser(state, event.id, { state: "sent" });
    case "prompt_refused": {
      const { id, message, code, retryAt } = event;
      const isPassing = retryAt !== undefined || PASSING.includes(code);
      state = withUser(state, id, { state: "refused" });
      return beside(state, { type: "error", id: `refused-${id}`, message, code, refused: id, isPassing, retryAt });
    }
    case "decided": {
      const { callId, answer } = event;
      const edited = answer.decision === "edit" ? answer.arguments : undefined;
      return withWaiting(state, callId, { isDeciding: true, decision: answer.decision, edited });
    }
    case "decision_accepted": {
      // A rejection is told in a `call_update` too, but only when the other calls of the step are settled.
      const { callId, answer } = event;
      if (answer.decision !== "reject") return state;
      return withWaiting(state, callId, { state: "rejected", isDeciding: false, feedback: answer.feedback });
    }
    case "diffed":
      return withCall(state, event.callId, { diff: event.diff });
    case "failed":
      return beside(state, { type: "error", id: `failed-${state.memory.made}`, message: event.message, code: event.code });
    case "titled":
      return { ...state, title: event.title };
    case "told":
      return put(state, event.turnId, event.part);
    default:
      return state;
  }
}

/** Know in which mode the agent acts, unless `mode` is one in which it does not. */
function acting(state: State, mode: unknown): State {
  return ACTING_MODES.includes(mode) ? { ...state, actingMode: mode as ActingMode } : state;
}

// -- places ----------------------------------------------------------------------------------------------------

/** Where a part is: the index of its message, and its own. */
type Place = readonly [message: number, part: number];

/** Where a part of a type is. The newest are looked at first: they are what changes. */
function placeOf({ messages }: State, id: string | undefined, type?: Part["type"]): Place | undefined {
  for (let n = messages.length - 1; n >= 0; n--) {
    const message = messages[n] as Message;
    if (message.role === "user") continue;
    for (let at = message.parts.length - 1; at >= 0; at--) {
      const part = message.parts[at] as Part;
      if (part.id === id && (!type || part.type === type)) return [n, at];
    }
  }
  return undefined;
}

function partOf<Type extends Part["type"]>(state: State, id: string | undefined, type?: Type): Extract<Part, { type: Type }> | undefined {
  const [n, at] = placeOf(state, id, type) ?? [-1, -1];
  return (state.messages[n] as AssistantMessage | undefined)?.parts[at] as Extract<Part, { type: Type }> | undefined;
}

/** All that the agent says and does. */
function partsOf({ messages }: State): Part[] {
  return messages.flatMap((message) => (message.role === "assistant" ? message.parts : []));
}

/** Put a part where the one with its id and type is, or at the end of what the agent does in a turn. */
function put(state: State, turnId: string, part: Part): State {
  const place = placeOf(state, part.id, part.type);
  if (!place) return appended(state, turnId, part);
  const [n, at] = place;
  const message = state.messages[n] as AssistantMessage;
  return withMessage(state, n, { ...message, parts: message.parts.with(at, part) });
}

function withMessage(state: State, n: number, message: Message): State {
  return { ...state, messages: state.messages.with(n, message) };
}

function removed(state: State, id: string, type?: Part["type"]): State {
  const place = placeOf(state, id, type);
  if (!place) return state;
  const [n, at] = place;
  const message = state.messages[n] as AssistantMessage;
  const parts = message.parts.toSpliced(at, 1);
  return parts.length ? withMessage(state, n, { ...message, parts }) : { ...state, messages: state.messages.toSpliced(n, 1) };
}

function pushed(state: State, message: Message): State {
  return { ...state, messages: [...state.messages, message] };
}

/** Add a part to what the agent does in a turn. A message that is on its way stays the last one. */
function appended(state: State, turnId: string, part: Part): State {
  const n = state.messages.findLastIndex((message) => message.role !== "user" || message.state !== "sending");
  const last = state.messages[n];
  if (last?.role === "assistant" && last.turnId === turnId) return withMessage(state, n, { ...last, parts: [...last.parts, part] });
  return numbered(pushed(state, { role: "assistant", id: `assistant-${state.memory.made}`, turnId, parts: [part] }));
}

/** Add a part where the conversation is: to the running turn, or beside the turns. */
function added(state: State, part: SystemMessage["parts"][number]): State {
  const { turnId } = state.memory;
  const isRunning = state.turns.findLast(({ id }) => id === turnId)?.isOver === false;
  return isRunning ? numbered(appended(state, turnId, part)) : beside(state, part);
}

function beside(state: State, part: SystemMessage["parts"][number]): State {
  return numbered(pushed(state, { role: "system", id: part.id, turnId: undefined, parts: [part] }));
}

function numbered(state: State): State {
  return remembering(state, { made: state.memory.made + 1 });
}

function remembering(state: State, change: Partial<Memory>): State {
  return { ...state, memory: { ...state.memory, ...change } };
}

// -- turns -----------------------------------------------------------------------------------------------------

/** Whether the history tells all of a turn, or of a frame's. */
function isTold({ turns, memory }: State, turnId: string, seq: number | undefined): boolean {
  if (turnId === memory.historyTurn) return false;
  return (seq ?? Infinity) <= memory.historySeq || turns.findLast((turn) => turn.id === turnId)?.isTold === true;
}

function withTurn(state: State, turn: TurnState): State {
  const n = state.turns.findLastIndex(({ id }) => id === turn.id);
  return { ...state, turns: n < 0 ? [...state.turns, turn] : state.turns.with(n, turn) };
}

function ended(state: State, event: SessionEventOf<"turn_end">): State {
  const { turn_id: id, reason, usage } = event;
  // One that is told again, to a client that was opened later, says what the title was then.
  const isNews = (event.seq ?? Infinity) > (state.info?.last_seq ?? 0);
  if (event.title && isNews) state = { ...state, title: event.title };
  if (event.context_used != null) state = { ...state, usage: { ...state.usage, context: event.context_used } };
  const turn = state.turns.findLast((one) => one.id === id);
  if (!turn?.end) {
    const tokens = state.usage.tokens + (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0);
    const cost = usage.cost_usd == null ? state.usage.cost : (state.usage.cost ?? 0) + usage.cost_usd;
    state = withTurn({ ...state, usage: { ...state.usage, tokens, cost } }, { ...turn, id, isOver: true, end: { reason, usage } });
  }
  // What was not settled before the end never will be.
  for (const message of state.messages) {
    if (message.role !== "assistant" || message.turnId !== id) continue;
    for (const part of message.parts) {
      const now = reason === "cancelled" ? "cancelled" : "completed";
      if (part.type === "call" && OPEN.includes(part.state)) state = withCall(state, part.id, { state: now });
      else if (part.type === "subagent" && part.state === "running") state = withSubagent(state, part.id, { state: now });
    }
  }
  return state;
}

// -- calls -----------------------------------------------------------------------------------------------------

function called(state: State, call: ToolCallFrame): State {
  const now: CallState = call.requires_approval ? "asking" : call.execute === false ? "elsewhere" : "approved";
  const part = partOf(state, call.call_id, "call");
  if (!part) {
    if (call.turn_id !== undefined && isTold(state, call.turn_id, call.seq)) return state;
    const made: CallPart = { type: "call", id: call.call_id, call, state: now, output: "" };
    state = withApproval(appended(state, call.turn_id ?? "", made), made);
    return withSubagent(state, call.parent_call_id, {});
  }
  const goesOn = OPEN.includes(part.state) && part.state !== "running";
  return withCall(state, part.id, { call, ...(goesOn && { state: now, isDeciding: false }) });
}

/** What became of a call. A result that this client has is not sent to it. */
function settled(state: State, event: SessionEventOf<"call_update">): State {
  const part = partOf(state, event.call_id, "call");
  if (!part) return state;
  const { call, outcome, edited } = part;
  // Whoever settles a call is told only its state.
  const args = event.arguments ?? (event.state === "completed" && !event.decision ? edited : undefined);
  const told = event.error ? { error: event.error } : "result" in event ? { result: event.result } : undefined;
  return withCall(state, event.call_id, {
    state: event.state,
    isDeciding: false,
    outcome: outcome ?? (told as Outcome | undefined),
    ...(event.decision && { decision: event.decision }),
    ...(event.feedback && { feedback: event.feedback }),
    ...(args && { call: { ...call, arguments: args } as ToolCallFrame }),
  });
}

function withOutput(state: State, callId: string, more: string): State {
  const output = (partOf(state, callId, "call")?.output ?? "") + more;
  return withCall(state, callId, { output: output.slice(-OUTPUT_CHARS) });
}

function withCall(state: State, callId: string, change: Partial<CallPart>): State {
  const part = partOf(state, callId, "call");
  if (!part) return state;
  const changed = { ...part, ...change };
  return withApproval(put(state, "", changed), changed);
}

/** Change a call if it waits for a human. */
function withWaiting(state: State, callId: string, change: Partial<CallPart>): State {
  return state.approvals.some(({ id }) => id === callId) ? withCall(state, callId, change) : state;
}

/** A call has changed: does a human have to decide about it? */
function withApproval(state: State, part: CallPart): State {
  const n = state.approvals.findIndex(({ id }) => id === part.id);
  if (part.state !== "asking") return n < 0 ? state : { ...state, approvals: state.approvals.toSpliced(n, 1) };
  return { ...state, approvals: n < 0 ? [...state.approvals, part] : state.approvals.with(n, part) };
}

// -- subagents -------------------------------------------------------------------------------------------------

function delegated(state: State, event: SessionEventOf<"subagent_update">): State {
  const { call_id: id, turn_id: turnId, state: now, agent, task, text } = event;
  // The history has the answer already.
  if (isTold(state, turnId, event.seq)) return now === "running" ? state : withSubagent(state, id, { state: now });
  if (partOf(state, id)) return withSubagent(state, id, { state: now, ...(text && { text }) });
  state = appended(state, turnId, { type: "subagent", id, state: now, agent, task, text: text ?? "", calls: [] });
  return withSubagent(state, id, {});
}

/** Change a subagent; its calls may have changed too. */
function withSubagent(state: State, id: string | undefined, change: Partial<SubagentPart>): State {
  const part = partOf(state, id, "subagent");
  if (!part) return state;
  const calls = callsOf(state).filter((part) => part.call.parent_call_id === id).map((part) => part.id);
  return put(state, "", { ...part, ...change, calls });
}

// -- calls that are being written ------------------------------------------------------------------------------

/** What was known of this call, and of later ones, is replaced. See docs/protocol.md. */
function drafted(state: State, draft: ToolCallDraftFrame): State {
  const { message_id: messageId, turn_id: turnId, index } = draft;
  if (messageId === state.memory.drafted) return state; // it is late
  if (messageId !== state.memory.drafting) {
    state = withoutDrafts(state, 0);
    state = remembering(state, { drafting: messageId, draftingTurn: turnId });
  }
  state = withoutDrafts(state, draft.withdrawn ? index : index + 1);
  if (draft.withdrawn) return state;
  const id = `draft-${messageId}-${index}`;
  return put(state, turnId, { type: "draft", id, draft });
}

/** Remove the drafts if an event tells more than they do, or that their answer is void. */
function endDrafts(state: State, event: SessionEvent | Action): State {
  const { drafting, draftingTurn } = state.memory;
  if (!drafting) return state;
  const isOver =
    ((event.type === "tool_call" || event.type === "turn_end") && event.turn_id === draftingTurn) ||
    (event.type === "agent_status" && event.status !== "thinking") ||
    (event.type === "message_discarded" && event.message_id === drafting) ||
    ((event.type === "assistant_message" || event.type === "assistant_thought") && event.message_id !== drafting);
  if (isOver || event.type === "offline" || event.type === "busy") state = withoutDrafts(state, 0);
  return isOver ? remembering(state, { drafted: drafting, drafting: "", draftingTurn: "" }) : state;
}

function withoutDrafts(state: State, from: number): State {
  for (const part of partsOf(state)) {
    if (part.type === "draft" && part.draft.index >= from) state = removed(state, part.id);
  }
  return state;
}

// -- the user's messages ---------------------------------------------------------------------------------------

function withUser(state: State, id: string, change: Partial<UserMessage>): State {
  const n = state.messages.findLastIndex((message) => message.id === id);
  const message = state.messages[n];
  return message?.role === "user" ? withMessage(state, n, { ...message, ...change }) : state;
}

/** A message as the log has it, from this window or another one. */
function logged(state: State, event: SessionEventOf<"user_message">, seq: number | undefined): State {
  const { client_msg_id: id, turn_id: turnId, content, attachments = [] } = event;
  const waited = state.queue.find((one) => one.id === id)?.message;
  state = unqueued(state, [id]);
  const known = waited ?? state.messages.findLast((message) => message.id === id);
  if (known?.role === "user") {
    const isWhole = known.isWhole && known.attachments.length >= attachments.length;
    const change = { turnId, state: "sent", isWhole } as const;
    return waited ? pushed(state, { ...waited, ...change }) : withUser(state, id, change);
  }
  if (isTold(state, turnId, seq)) return state;
  const isWhole = content !== undefined && !attachments.length;
  return pushed(state, { role: "user", id, turnId, text: content ?? "…", attachments, state: "sent", isWhole });
}

function queued(state: State, { client_msg_id: id, position, preview = "" }: SessionEventOf<"queued">): State {
  const message = state.messages.findLast((one): one is UserMessage => one.role === "user" && one.id === id);
  if (message?.turnId !== undefined) return state; // the log tells that it once waited; it has its place
  const before = state.queue.find((one) => one.id === id);
  if (!message && before) return state;
  const prompt = prompted(id, message, preview, position);
  const queue = [...state.queue.filter((one) => one !== before), prompt].sort((one, other) => one.position - other.position);
  return { ...state, queue, messages: message ? state.messages.filter((one) => one !== message) : state.messages };
}

function unqueued(state: State, ids: readonly string[]): State {
  const isWanted = ({ id }: QueuedPrompt) => !ids.includes(id);
  return state.queue.every(isWanted) ? state : { ...state, queue: state.queue.filter(isWanted) };
}

function queueOf(state: State, info: SessionInfoFrame): QueuedPrompt[] {
  return (info.queued ?? []).map(({ client_msg_id: id, preview }, index) =>
    prompted(id, state.queue.find((one) => one.id === id)?.message, preview, index + 1),
  );
}

function prompted(id: string, message: UserMessage | undefined, preview: string, position: number): QueuedPrompt {
  const text = message?.text ?? preview;
  return { id, text, position, isWhole: message !== undefined || text.length < PREVIEW_CHARS, message };
}

function callsOf(state: State): CallPart[] {
  return partsOf(state).filter((part) => part.type === "call");
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
