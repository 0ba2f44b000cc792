import type { SessionError } from "./errors.ts";
import type { ServerFrame } from "./protocol.ts";
import type { Action } from "./reduce.ts";
import type { Outcome } from "./journal.ts";

/** What happens in the client itself. */
export type LocalEvent =
  /** The connection is open, and everything missed has been replayed. */
  | { type: "online"; again: boolean }
  /** The server takes no frames for the moment: the session sends nothing for that time, then tries again. */
  | { type: "busy"; why: string; retryInMs: number }
  /**
   * There is no connection; the session tries again. `error`: why the server refused it, if it said so: of `kind` `refused` and
   * `code` `RATE_LIMITED` if there were too many connections.
   */
  | { type: "offline"; why: string; retryInMs: number; error?: SessionError | undefined }
  /** The session ended: with an error, unless it was closed here. The last event. */
  | { type: "ended"; error?: Error | undefined }
  /** A call begins to run here. */
  | { type: "call_started"; callId: string; toolName: string; arguments: Record<string, unknown> }
  /** A running call wrote output. */
  | { type: "call_output"; callId: string; stdout: string; stderr: string }
  /** A call has run here. */
  | { type: "call_finished"; callId: string; toolName: string; outcome: Outcome }
  /** API Gateway could not process a frame. `busy` says when the session sends again what it has to. */
  | { type: "gateway_error"; message: string }
  /** The server sent something that the client cannot use, or a transfer failed. */
  | { type: "ignored"; why: string };

/**
 * What a session tells: the server's frames, once and in order, and what happens in the client. Frames of a later version
 * of the protocol come under their own types.
 */
export type SessionEvent = ServerFrame | LocalEvent;

/** The event of a type. */
export type SessionEventOf<Type extends SessionEvent["type"]> = Extract<SessionEvent, { type: Type }>;

type Kind = "string" | "number" | "boolean" | "object" | "array" | "strings";

/** What readers of an event rely on, by type. The server checks its own frames; this is for one that is not ours. */
const REQUIRED: { [Type in ServerFrame["type"]]?: Record<string, Kind> } = {
  assistant_message: { token: "string", is_final: "boolean", message_id: "string", turn_id: "string" },
  user_message: { client_msg_id: "string", turn_id: "string", role: "string" },
  tool_call: { call_id: "string", tool_name: "string", requires_approval: "boolean" },
  tool_call_draft: { message_id: "string", turn_id: "string", index: "number" },
  tool_progress: { call_id: "string" },
  agent_status: { status: "string" },
  error: { message: "string", error_code: "string", details: "object", retryable: "boolean" },
  turn_end: { turn_id: "string", reason: "string", usage: "object" },
  agent_switched: { from_agent: "string", to_agent: "string" },
  mode_switched: { from_mode: "string", to_mode: "string" },
  context_updated: { action: "string", files: "number" },
  plan: { items: "array" },
  call_update: { call_id: "string", state: "string" },
  subagent_update: { call_id: "string", turn_id: "string", agent: "string", task: "string", state: "string" },
  session_info: {
    session_id: "string",
    agent: "string",
    status: "string",
    last_seq: "number",
    pending_calls: "array",
    plan: "array",
    settings: "object",
  },
  rules: { rules: "array" },
  resumed: { last_seq: "number", open_calls: "array" },
  resync_required: { last_seq: "number" },
  queued: { client_msg_id: "string", position: "number" },
  withdrawn: { client_msg_ids: "strings" },
  compacted: { outcome: "string", tokens_before: "number", tokens_after: "number" },
  ack: { outcome: "string" },
  upload_ticket: { payload_ref: "string", url: "string", headers: "object" },
  message_discarded: { message_id: "string" },
};
/** Types that no frame may have: what they say is this client's to say, such as what a call would change. */
const LOCAL: Record<LocalEvent["type"] | Action["type"] | "*", 1> = {
  online: 1,
  busy: 1,
  offline: 1,
  ended: 1,
  call_started: 1,
  call_output: 1,
  call_finished: 1,
  gateway_error: 1,
  ignored: 1,
  prompted: 1,
  prompt_accepted: 1,
  prompt_refused: 1,
  decided: 1,
  decision_accepted: 1,
  diffed: 1,

  failed: 1,
  titled: 1,
  told: 1,
  "*": 1,
};
const OPTIONAL: Record<string, Kind> = {
  seq: "number",
  arguments: "object",
  payload_url: "string",
  payload_bytes: "number",
  call_id: "string",
  parent_call_id: "string",
  text: "string",
};

/** A frame of the server as an event. Throws an Error that says what is wrong with it. */
export function readFrame(frame: Record<string, unknown>): SessionEvent {
  const { type, seq } = frame;
  if (type === undefined && typeof frame["message"] === "string" && "connectionId" in frame) {
    return { type: "gateway_error", message: frame["message"] };
  }
  if (typeof type !== "string" || Object.hasOwn(LOCAL, type)) throw new Error("a frame without a type");
  if (seq !== undefined && !(Number.isSafeInteger(seq) && (seq as number) >= 0)) throw new Error(`${type}.seq`);
  const required = (Object.hasOwn(REQUIRED, type) && REQUIRED[type as ServerFrame["type"]]) || {};
  for (const [name, kind] of Object.entries({ ...OPTIONAL, ...required })) {
    const value = frame[name];
    if (value == null && !Object.hasOwn(required, name)) continue;
    const item = kind === "array" ? "object" : kind === "strings" ? "string" : undefined;
    const isRight = item ? Array.isArray(value) && value.every((one) => kindOf(one) === item) : kindOf(value) === kind;
    if (!isRight) throw new Error(`${type}.${name}`);
  }
  return frame as unknown as ServerFrame;
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
}
