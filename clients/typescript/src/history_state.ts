import type { ToolCallFrame } from "./protocol.ts";
import type { reduce } from "./reduce.ts";
import type { HistoryMessage } from "./rest.ts";
import type { CallPart, ConversationState, Message, Part, TurnState } from "./state.ts";

/** A page of the history, for the state. */
export type HistoryAction =
  /**
   * The newest page, up to `lastSeq`, and the turn that was running then. At the beginning, or when `isStale` says that
   * frames are missing. `title`: what the session is called, if nothing has said so yet.
   */
  | {
      type: "history";
      messages: readonly HistoryMessage[];
      lastSeq: number;
      runningTurn?: string | undefined;
      title?: string;
      hasEarlier: boolean;
    }
  /** The page before the first message. */
  | { type: "earlier_history"; messages: readonly HistoryMessage[]; hasEarlier: boolean };

type State = ConversationState;
type Reduce = typeof reduce;

/** The state with a page of the history. Pure, like `step`, which is `reduce`: so this part is loaded without the other. */
export function reduceHistory(step: Reduce, state: State, page: HistoryAction): State {
  if (page.type === "history") return withHistory(step, state, page);
  const read = readHistory(step, state, page.messages, () => false);
  return { ...state, ...read, messages: [...read.messages, ...state.messages], hasEarlier: page.hasEarlier };
}

function withHistory(step: Reduce, state: State, event: Extract<HistoryAction, { type: "history" }>): State {
  const { runningTurn, isStale } = { ...state, ...event };
  const ofRunning = (message: HistoryMessage) => runningTurn !== undefined && message["turn_id"] === runningTurn;
  // The frames of the running turn tell it, unless they are missing.
  const told = isStale ? event.messages : event.messages.filter((message) => !ofRunning(message));
  const read = readHistory(step, state, told, ofRunning);
  const ids = new Set(read.messages.flatMap((message) => [message.id, ...(message.role === "user" ? [] : message.parts.map((part) => part.id))]));
  // A turn may have begun since the server was asked which one runs.
  const isOver = (turnId: string) => read.turns.some((turn) => turn.id === turnId && turn.isTold === true);
  const running = new Set([runningTurn, state.memory.turnId].filter((turnId) => turnId && !isOver(turnId)));
  const historyTurn = [...running].at(-1);
  const memory = { ...read.memory, historySeq: event.lastSeq, historyTurn };
  const title = state.title || (event.title ?? "");
  let after: State = { ...state, ...read, memory, title, isStale: false, hasEarlier: event.hasEarlier };
  for (const message of state.messages) {
    if (message.role === "user") {
      if ((message.state === "sending" || running.has(message.turnId)) && !ids.has(message.id)) after = pushed(after, message);
    } else if (message.role === "assistant" && running.has(message.turnId)) {
      for (const part of message.parts) if (!ids.has(part.id)) after = step(after, { type: "told", turnId: message.turnId, part });
    }
  }
  return { ...after, approvals: partsOf(after).filter((part) => part.type === "call" && part.state === "asking") as CallPart[] };
}

/**
 * Messages of the history. `goesOn`: whether a message's turn is running. Its calls stay as they are shown; others wait,
 * or run elsewhere, until it is said.
 */
function readHistory(step: Reduce, state: State, history: readonly HistoryMessage[], goesOn: (message: HistoryMessage) => boolean): State {
  const put = (turnId: string, part: Part) => (read = step(read, { type: "told", turnId, part }));
  let read: State = { ...state, messages: [] };
  for (const message of history) {
    const { content } = message;
    const turnId = textOf(message["turn_id"]);
    const isRunning = goesOn(message);
    const turn = read.turns.find((one) => one.id === turnId);
    if (turnId && !isRunning && !turn?.isTold) {
      const told: TurnState = { ...turn, id: turnId, isOver: true, isTold: true };
      read = { ...read, turns: turn ? read.turns.map((one) => (one === turn ? told : one)) : [...read.turns, told] };
    }
    const id = textOf(message["message_id"]) || message.id;
    if (message.role === "user") {
      read = pushed(read, { role: "user", id, turnId: turnId || undefined, text: content, attachments: [], state: "sent", isWhole: true });
    } else if (message.role === "tool") {
      const part = partOf(read, textOf(message["call_id"]));
      if (part?.type === "subagent") put("", { ...part, text: content, state: "completed" });
      if (part?.type !== "call") continue;
      const settles = ["asking", "approved", "elsewhere"].includes(part.state);
      put("", { ...part, shown: content, ...(settles && { state: "completed" }) });
    } else if (message.role === "assistant") {
      const agent = textOf(message["agent"]);
      if (content) put(turnId, { type: "text", id, text: content, isFinal: true, agent });
      for (const told of (message["calls"] ?? []) as ToolCallFrame[]) {
        const call: ToolCallFrame = { ...told, type: "tool_call", requires_approval: false, turn_id: turnId };
        const shown = isRunning && partOf(state, call.call_id);
        put(turnId, shown || madePart(call, isRunning));
      }
    }
  }
  return read;
}

/** A call of the history: one of `delegate` is a subagent. */
function madePart(call: ToolCallFrame, isRunning: boolean): Part {
  const { call_id: id, tool_name: tool, arguments: args = {} } = call;
  if (tool !== "delegate") return { type: "call", id, call, state: isRunning ? "elsewhere" : "completed", output: "" };
  const [agent, task] = [textOf(args["agent"]), textOf(args["task"])];
  return { type: "subagent", id, state: isRunning ? "running" : "completed", agent, task, text: "", calls: [] };
}

function pushed(state: State, message: Message): State {
  return { ...state, messages: [...state.messages, message] };
}

function partsOf({ messages }: State): Part[] {
  return messages.flatMap((message) => (message.role === "assistant" ? message.parts : []));
}

function partOf(state: State, id: string): Part | undefined {
  return partsOf(state).findLast((part) => part.id === id);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
