import type { Outcome } from "./journal.ts";
import type {
  Attachment,
  AttachmentInfo,
  CompactedFrame,
  ErrorCode,
  PlanStep,
  SessionInfoFrame,
  Status,
  SubagentUpdateFrame,
  ToolCallDraftFrame,
  ToolCallFrame,
  TurnEndFrame,
} from "./protocol.ts";
import type { ActingMode } from "./session.ts";

/**
 * What a session shows: its messages, and what is known of it now. Never changed: `reduce` makes the next state from it,
 * in which all that is the same as before is the same object.
 */
export interface ConversationState {
  /** Oldest first. */
  readonly messages: readonly Message[];
  /** The turns of these messages, and those that the log tells of beside them, oldest first. */
  readonly turns: readonly TurnState[];
  /** The calls that wait for a human, oldest first. */
  readonly approvals: readonly CallPart[];
  /** Messages that wait for the running turn, in the order in which they will be answered. */
  readonly queue: readonly QueuedPrompt[];
  readonly status: Status;
  readonly agent: string;
  readonly title: string;
  /** The newest plan; a message's plan is its turn's. */
  readonly plan: readonly PlanStep[];
  /** The last `session_info`, with the mode that is set now. */
  readonly info: SessionInfoFrame | undefined;
  /** The mode in which the agent acts: the one that is set or, in `ask` and `plan`, the one before. */
  readonly actingMode: ActingMode;
  readonly usage: Usage;
  readonly connection: ConnectionState;
  /** Whether there are messages before the first one. */
  readonly hasEarlier: boolean;
  /** Frames are missing that the log does not have any more: the history must be read. */
  readonly isStale: boolean;
  /** The `seq` of the newest frame; one that comes again changes nothing. */
  readonly lastSeq: number;
  /** @internal What later frames need to be understood. */
  readonly memory: Memory;
}

/** What the turns that the log tells of have used. */
export interface Usage {
  /** Tokens of prompts and answers. */
  readonly tokens: number;
  /** In US dollars, if prices are known. */
  readonly cost: number | undefined;
  /** The tokens of the newest prompt. */
  readonly context: number | undefined;
}

export interface ConnectionState {
  readonly state: "connecting" | "online" | "offline" | "busy" | "ended";
  /** Why it is offline or busy. */
  readonly why?: string;
  /** With that, in how many milliseconds the session tries again. */
  readonly retryInMs?: number;
  /** What ended the session, if it was not closed here; or, if it is offline, why the server refused the connection. */
  readonly error?: Error | undefined;
}

export interface TurnState {
  readonly id: string;
  readonly isOver: boolean;
  /** How it ended, and what it cost; undefined if the log does not say. */
  readonly end?: { readonly reason: TurnEndFrame["reason"]; readonly usage: TurnEndFrame["usage"] } | undefined;
  /** The history tells it: its frames only complete that. */
  readonly isTold?: boolean;
}

/** A message that waits. */
export interface QueuedPrompt {
  /** Its `client_msg_id`. */
  readonly id: string;
  readonly text: string;
  /** Whether that is all of the text: of a message of another window, the server tells the beginning. */
  readonly isWhole: boolean;
  /** From 1. */
  readonly position: number;
  /** @internal The message, if it was sent here. */
  readonly message?: UserMessage | undefined;
}

/** What the conversation shows, one below the other. `id` is unique among messages. */
export type Message = UserMessage | AssistantMessage | SystemMessage;

export interface UserMessage {
  readonly role: "user";
  /** Its `client_msg_id`. */
  readonly id: string;
  /** Undefined until the agent gets it. */
  readonly turnId: string | undefined;
  readonly text: string;
  /** With their contents, if it was sent here. */
  readonly attachments: readonly (Attachment | AttachmentInfo)[];
  readonly state: "sending" | "sent" | "refused";
  /** Whether all of it is here, so that it could be sent again. */
  readonly isWhole: boolean;
}

/** What the agent says and does in a turn, as far as no other message stands between. */
export interface AssistantMessage {
  readonly role: "assistant";
  readonly id: string;
  /** Empty if it has calls that belong to no turn. */
  readonly turnId: string;
  /** In their order; each `id` is unique in the conversation. */
  readonly parts: readonly Part[];
}

/** What happened beside the turns. */
export interface SystemMessage {
  readonly role: "system";
  readonly id: string;
  readonly turnId: undefined;
  readonly parts: readonly (SwitchPart | ErrorPart | CompactedPart)[];
}

export type Part = TextPart | ThoughtPart | DraftPart | CallPart | SubagentPart | PlanPart | SwitchPart | ErrorPart | CompactedPart;

/** A text of the agent, as Markdown. */
export interface TextPart {
  readonly type: "text";
  /** Its `message_id`. */
  readonly id: string;
  readonly text: string;
  /** Whether it is complete. */
  readonly isFinal: boolean;
  readonly agent: string;
}

/** What the model thought before it answered. */
export interface ThoughtPart {
  readonly type: "thought";
  readonly id: string;
  readonly text: string;
}

/** A call that the model is writing. Nothing can be decided about it. */
export interface DraftPart {
  readonly type: "draft";
  readonly id: string;
  readonly draft: ToolCallDraftFrame;
}

/**
 * - `asking`: it waits for a human. `approved`: it is this client's to execute. `elsewhere`: another client's.
 * - `running`: it runs here.
 * - `completed`, `failed`, `rejected`, `expired`, `cancelled`: it is settled.
 */
export type CallState =
  | "asking"
  | "approved"
  | "running"
  | "elsewhere"
  | "completed"
  | "failed"
  | "rejected"
  | "expired"
  | "cancelled";

export type SubagentState = SubagentUpdateFrame["state"];

/** A tool call, and what became of it. */
export interface CallPart {
  readonly type: "call";
  /** Its `call_id`. */
  readonly id: string;
  /** The newest frame, with the arguments that a human may have edited. */
  readonly call: ToolCallFrame;
  readonly state: CallState;
  /** The newest output of a command, at most 20,000 characters. */
  readonly output: string;
  readonly outcome?: Outcome | undefined;
  /** What the model saw of the result, from the history. */
  readonly shown?: string | undefined;
  /** What a human decided, and said about it. */
  readonly decision?: "approve" | "edit" | "reject" | undefined;
  readonly feedback?: string | undefined;
  /** A decision made here is on its way. */
  readonly isDeciding?: boolean | undefined;
  /** @internal The arguments that were put in place of the agent's here. */
  readonly edited?: Record<string, unknown> | undefined;
  /** What it would change in this client's files, or has changed: the client says that, with a `diffed` event. */
  readonly diff?: readonly FileChange[] | undefined;
}

/** Another agent works on a part of the turn. Its calls are parts of their own, with its `id` as `parent_call_id`. */
export interface SubagentPart {
  readonly type: "subagent";
  /** Its `call_id`. */
  readonly id: string;
  readonly state: SubagentState;
  readonly agent: string;
  readonly task: string;
  /** What it has written last; of an earlier turn, what it has answered. */
  readonly text: string;
  /** The ids of its calls that are parts of the conversation, in their order. */
  readonly calls: readonly string[];
}

/** A file before and after a call; null stands for no file. */
export interface FileChange {
  path: string;
  before: string | null;
  after: string | null;
}

/** The newest plan of a turn, where the turn made its first. */
export interface PlanPart {
  readonly type: "plan";
  readonly id: string;
  readonly items: readonly PlanStep[];
}

/** Another agent answers from here on. */
export interface SwitchPart {
  readonly type: "switch";
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

export interface ErrorPart {
  readonly type: "error";
  readonly id: string;
  readonly message: string;
  readonly code: ErrorCode | undefined;
  /** The message that was refused, if it was one. */
  readonly refused?: string | undefined;
  /** Whether that message may be sent again, and when (milliseconds since the epoch), if the server says so. */
  readonly isPassing?: boolean | undefined;
  readonly retryAt?: number | undefined;
}

export interface CompactedPart {
  readonly type: "compacted";
  readonly id: string;
  readonly outcome: CompactedFrame["outcome"];
  /** Estimated tokens. */
  readonly before: number;
  readonly after: number;
}

/** @internal */
export interface Memory {
  /** The turn whose frames come now. */
  readonly turnId: string;
  /** Numbers what has no id of its own. */
  readonly made: number;
  /** The message whose calls are being written, and its turn; and the one whose drafts are over. */
  readonly drafting: string;
  readonly draftingTurn: string;
  readonly drafted: string;
  /** Frames up to this `seq` are told by the history, except those of the turn that was running. */
  readonly historySeq: number;
  readonly historyTurn?: string | undefined;
}

/** A session of which nothing is known. */
export const EMPTY: ConversationState = {
  messages: [],
  turns: [],
  approvals: [],
  queue: [],
  status: "idle",
  agent: "",
  title: "",
  plan: [],
  info: undefined,
  actingMode: "code",
  usage: { tokens: 0, cost: undefined, context: undefined },
  connection: { state: "connecting" },
  hasEarlier: false,
  isStale: false,
  lastSeq: 0,
  memory: { turnId: "", made: 0, drafting: "", draftingTurn: "", drafted: "", historySeq: 0 },
};
