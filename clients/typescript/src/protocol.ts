// Every frame of the CodeLab WebSocket protocol. Written by `make docs` from the server's models; do not edit.
// A `switch` over `type` narrows a ServerFrame to its interface.

/** A frame from the client. */
export type ClientFrame =
  | UserMessageFrame
  | ToolResultFrame
  | HitlDecisionFrame
  | ContextUpdateFrame
  | SwitchAgentFrame
  | HelloFrame
  | ResumeFrame
  | CancelFrame
  | WithdrawFrame
  | CompactFrame
  | PingFrame
  | SessionConfigFrame
  | RefreshTokenFrame
  | UploadRequestFrame
  | RulesFrame;

/** A frame from the server. */
export type ServerFrame =
  | ErrorFrame
  | ContextUpdatedFrame
  | SessionInfoFrame
  | RuleListFrame
  | ResumedFrame
  | ResyncRequiredFrame
  | PongFrame
  | AckFrame
  | UploadTicketFrame
  | AssistantMessageFrame
  | LoggedMessageFrame
  | ToolCallFrame
  | ToolProgressFrame
  | ToolCallDraftFrame
  | AgentStatusFrame
  | TurnEndFrame
  | AgentSwitchedFrame
  | ModeSwitchedFrame
  | PlanFrame
  | SubagentUpdateFrame
  | CallUpdateFrame
  | AssistantThoughtFrame
  | QueuedFrame
  | WithdrawnFrame
  | CompactedFrame
  | MessageDiscardedFrame;

/** A message of the user. Starts a turn, or waits until the running turn ends. */
export interface UserMessageFrame {
  type: "user_message";
  /** The message's text: at most 10,000 characters, 100,000 on a connection with extensions. */
  content: string;
  /** Who wrote it. The model sees other roles than `user` as quoted text, never as instructions. */
  role?: "user" | "assistant" | "system" | "tool" | null;
  /** An id of your choice. The server accepts a message with the same id only once. */
  client_msg_id?: string | null;
  /** What to do if a turn is running, instead of the session's `when_busy`. */
  when_busy?: "queue" | "steer" | "interrupt" | "reject" | null;
  /**
   * Images and texts that the model sees with the message. Images need a model that takes them, see
   * `session_info.models`. A frame over 30 KB goes by `payload_ref`.
   */
  attachments?: Attachment[] | null;
  /**
   * How things stand as the message is sent, such as `git` and `date`. The model reads it behind the message, as data.
   * Nobody else sees it. Not from a viewer.
   */
  environment?: Environment | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** The outcome of a call: exactly one of `result` (any JSON, including null) and `error`. */
export interface ToolResultFrame {
  type: "tool_result";
  /** The `call_id` of the `tool_call`. */
  call_id: string;
  /** What the tool returned: any JSON; null also means success. */
  result?: unknown;
  /** Why the tool failed: a string, or an object with a code and a message. */
  error?: string | { code?: string | null; message?: string; } | null;
  /** The error's code, if `error` is a string or missing. */
  error_code?: string | null;
  /** True: a piece of a running command's output. The call stays open and its deadline restarts. */
  partial?: boolean | null;
  /** Where this piece begins, in characters from the start of the whole output, all streams together. */
  offset?: number | null;
  /** Where this piece begins in each stream; instead of `offset`, or beside it. */
  offsets?: Offsets | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** The user's decision about a call that awaits approval. */
export interface HitlDecisionFrame {
  type: "hitl_decision";
  /** The call that awaits approval. */
  call_id: string;
  /** The decision. It is final. */
  decision: "approve" | "edit" | "reject";
  /** With `edit`: the complete new arguments. They must match the tool's schema. */
  modified_arguments?: Record<string, unknown> | null;
  /** With `reject`: the user's reason, which the model sees. */
  feedback?: string | null;
  /** Remember the decision for similar calls by this agent with this tool. */
  remember?: Remember | null;
  /**
   * With `approve` or `edit` of a plan (`propose_plan`): the mode in which it is carried out. Absent: the one before
   * `plan`.
   */
  mode?: "manual" | "code" | "autonomous" | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
  /** An alias of `modified_arguments`. */
  modified_args?: Record<string, unknown> | null;
}

/** Change the files that the agent sees with every Request. Answered by `context_updated`. */
export interface ContextUpdateFrame {
  type: "context_update";
  /** `clear` removes all files and keeps the history. */
  action: "add_file" | "remove_file" | "clear";
  /** The file. */
  data?: ContextFile | null;
  /** If given, it must be this connection's session. */
  session_id?: string | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Switch to another agent; with `content`, also send it a message. */
export interface SwitchAgentFrame {
  type: "switch_agent";
  /** The agent's name. */
  agent_type: string;
  /** A user message to the new agent, unless it is empty. */
  content?: string | null;
  /** Why. `agent_switched` repeats it. */
  reason?: string | null;
  /** As in `user_message`, for `content`. */
  client_msg_id?: string | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** The client introduces itself and turns on extension frames. Answered by `session_info`. */
export interface HelloFrame {
  type: "hello";
  /** The client program: `name` and `version`. */
  client?: Record<string, unknown> | null;
  /**
   * Where commands run: `linux`, `macos` or `windows`. Other values mean unknown. If all clients that execute calls
   * name one of the first two, paths of calls may have colons, tabs and joined characters, and up to 4,095 characters.
   */
  platform?: string | null;
  /** What the client can do beyond the basics. */
  capabilities?: Capabilities | null;
  /**
   * The project's instructions for whoever works on it, in the order in which the model reads them. They replace
   * earlier ones; without this field, those stay. Not from a viewer.
   */
  instructions?: Instruction[] | null;
  /**
   * Where the calls run, as far as it stays the same. The model reads it before the conversation, as data. It replaces
   * an earlier one; without this field, that stays. Not from a viewer.
   */
  environment?: Environment | null;
  /**
   * Agents of the project or the user that the session's agent can delegate to, if the executor lists `delegate`; at
   * most 32,000 bytes in all. They replace those that this connection declared before; without this field, those stay.
   * Not from a viewer.
   */
  agents?: AgentDeclaration[] | null;
  /**
   * Facts about the session for lists, such as `cwd` and `project`. They replace those of the same names, and null
   * removes one; the others stay. At most 16 KB of JSON in all.
   */
  metadata?: Record<string, unknown> | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Replay every frame after `last_seq`, then continue live. */
export interface ResumeFrame {
  type: "resume";
  /** The client has every frame up to this `seq`; 0: it has none. */
  last_seq: number;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Stop the running turn. Not an error if no turn is running. */
export interface CancelFrame {
  type: "cancel";
  /** Stop only this turn. */
  turn_id?: string | null;
  /**
   * Cancel only this message: the turn that answers it is stopped; if it waits, it is withdrawn; if it has not arrived
   * yet, it will not be accepted.
   */
  client_msg_id?: string | null;
  /** True: also withdraw all messages that wait. */
  queued?: boolean | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Take back a message that waits, or that has not arrived yet. The running turn is not affected. */
export interface WithdrawFrame {
  type: "withdraw";
  /** The message's id. */
  client_msg_id: string;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Make the history short for the model now, although that is not due. `compacted` says when it is done. */
export interface CompactFrame {
  type: "compact";
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Answered by `pong` with the same fields. Keeps API Gateway from closing an idle connection. */
export interface PingFrame {
  type: "ping";
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
  [field: string]: unknown;
}

/** Change how the session behaves. Answered by `session_info`. */
export interface SessionConfigFrame {
  type: "session_config";
  /** The model to use from the next step on, one that the server offers. */
  model?: string | null;
  /**
   * What to do with a message that arrives during a turn: let it wait, give it to the model at the turn's next step,
   * stop the turn, or refuse the message.
   */
  when_busy?: "queue" | "steer" | "interrupt" | "reject" | null;
  /**
   * What the agent may do: only read (`ask`), read and propose a plan (`plan`), or act, and ask for every change
   * (`manual`), for what the operator lists (`code`, the default) or for commands (`autonomous`).
   */
  mode?: "ask" | "plan" | "manual" | "code" | "autonomous" | null;
  /**
   * With `mode`: the newest `seq` that the client has. If the mode was switched after it, this switch has no effect,
   * so a frame that comes twice or late undoes nothing.
   */
  last_seq?: number | null;
  /** The older name of `mode`, for the modes in which the agent acts; `balanced` is `code`. Not with `mode`. */
  autonomy?: "manual" | "balanced" | "autonomous" | null;
  /** The session's title. */
  title?: string | null;
  /** How much the model thinks before it answers, one of the levels that `session_info.models` lists for it. */
  thinking?: "none" | "low" | "medium" | "high" | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Replace the connection's token, before or after it has expired, with a new one of the same user. */
export interface RefreshTokenFrame {
  type: "refresh_token";
  /** A JWT whose `sub` is the connection's user. */
  token: string;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** Request a URL to upload a frame that is too large for a WebSocket message. Answered by `upload_ticket`. */
export interface UploadRequestFrame {
  type: "upload_request";
  /** The exact size of the frame's JSON in UTF-8 bytes. */
  bytes: number;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** List the remembered rules, or revoke one. Answered by `rules`. */
export interface RulesFrame {
  type: "rules";
  /** What to do. */
  action: "list" | "revoke";
  /** With `revoke`: the rule to revoke. */
  rule_id?: string | null;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/** A refusal of one frame (no `seq`), or the failure of a turn (with one). */
export interface ErrorFrame {
  type: "error";
  /** What is wrong, for a human. */
  content: string;
  /** The same as `content`. */
  message: string;
  /** What is wrong, for a program. */
  error_code: ErrorCode;
  /** Details that help to correct it; `field` names the offending field. */
  details: Record<string, unknown>;
  /** Whether the same frame may succeed later. */
  retryable: boolean;
  /** The call named in the refused frame. */
  call_id?: string;
  /** The refused frame's, if it had one. */
  client_msg_id?: string;
  /** In how many seconds to try again, if known; also in `details`. */
  retry_after?: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** The context after a change; the answer to `context_update`. An extension frame. */
export interface ContextUpdatedFrame {
  type: "context_updated";
  /** The action of the `context_update`. */
  action: string;
  /** The file that was added or removed. */
  path?: string;
  /** The number of context files now. */
  files: number;
  /** Their size in the model's context, in estimated tokens. */
  context_size: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** The session's state; the answer to `hello`, `session_config` and `refresh_token`. An extension frame. */
export interface SessionInfoFrame {
  type: "session_info";
  /** The session's id, given by the client or made by the server. */
  session_id: string;
  /** The current agent. */
  agent: string;
  /** What the agent is doing. */
  status: Status;
  /** The session's title; may be empty. */
  title: string;
  /** The running turn. */
  turn_id?: string;
  /** The `seq` of the newest frame. */
  last_seq: number;
  /** The open calls. */
  pending_calls: PendingCall[];
  /** The subagents that work, if there are any. */
  subagents?: SubagentInfo[];
  /** The messages that wait. */
  queued: QueuedMessage[];
  /** The agent's current plan; may be empty. */
  plan: PlanStep[];
  /** The session's mode. */
  mode: "ask" | "plan" | "manual" | "code" | "autonomous";
  /** The other settings made by `session_config`, and `autonomy`. */
  settings: Record<string, unknown>;
  /** The agents that the session can switch to. */
  agents: AgentInfo[];
  /** The model that answers next: the chosen one, else the agent's or the server's. */
  model: string;
  /** The models that the session can choose; the server's default first. */
  models: ModelInfo[];
  /** The server's limits on sizes and counts. */
  limits: Record<string, number>;
  /**
   * The user's quotas by name: `messages_per_minute`, `requests_per_minute`, `tokens_per_day`,
   * `connections_per_minute`, `stored_bytes_per_day`, `open_turns`. Those without a limit are absent.
   */
  quotas?: Record<string, Quota>;
  /** The protocol version of the server. */
  protocol_version: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** The remembered rules; the answer to `rules`. An extension frame. */
export interface RuleListFrame {
  type: "rules";
  /** The session's rules, then the user's, oldest first. */
  rules: RuleInfo[];
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/**
 * The replay is complete; with `more`, send `resume` again. Execute only calls listed in `open_calls`. An extension
 * frame.
 */
export interface ResumedFrame {
  type: "resumed";
  /** The `seq` of the last replayed frame. */
  last_seq: number;
  /** The open calls. Execute no others. */
  open_calls: PendingCall[];
  /** True: there are more frames; send `resume` again. */
  more?: boolean;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** The log does not reach back to the client's `last_seq`; load the history over REST instead. An extension frame. */
export interface ResyncRequiredFrame {
  type: "resync_required";
  /** The `seq` of the newest frame. */
  last_seq: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** The answer to `ping`, with all of its fields. An extension frame. */
export interface PongFrame {
  type: "pong";
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
  [field: string]: unknown;
}

/** What became of a frame with a `request_id` that has no other answer. An extension frame. */
export interface AckFrame {
  type: "ack";
  /**
   * `started`, `queued`: the message began a turn, or waits. `cancelling`: the turn ends, or has just ended.
   * `withdrawn`: the message waited or had not arrived, and will not be answered. `switched`, `unchanged`: the agent
   * is another one now, or was this one already. `compacting`: `compacted` follows. `repeated`: the same frame was
   * accepted before. `accepted`: all else.
   */
  outcome: "accepted" | "repeated" | "started" | "queued" | "cancelling" | "nothing_to_cancel" | "withdrawn" | "nothing_to_withdraw" | "compacting" | "nothing_to_compact" | "switched" | "unchanged";
  /** The turn that was started or is cancelled. */
  turn_id?: string;
  /** The message that the frame contained or named, with the id that it got. */
  client_msg_id?: string;
  /** The call that the frame named. */
  call_id?: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** Where to upload a frame, once; the answer to `upload_request`. An extension frame. */
export interface UploadTicketFrame {
  type: "upload_ticket";
  /** Put this into the frame that you send in place of the uploaded one. */
  payload_ref: string;
  /** PUT the frame's JSON here. */
  url: string;
  /** Send exactly these headers with the PUT. */
  headers: Record<string, string>;
  /** When the ticket expires, in milliseconds since the epoch. */
  expires_at: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** The `request_id` of the frame that this answers, if it had one. */
  request_id?: string;
}

/** A delta of the answer. `content` repeats `token`: the seed documents use both names. */
export interface AssistantMessageFrame {
  type: "assistant_message";
  /** The next piece of the text. It may be empty in a message's last frame. */
  token: string;
  /** The same as `token`. */
  content: string;
  /** True in exactly one frame of a message, the last. */
  is_final: boolean;
  /** The message that this delta belongs to. */
  message_id: string;
  /** The turn that the message belongs to. */
  turn_id: string;
  /** The agent that wrote it. */
  agent?: string;
  /** True: the message was cut off; discard its text. */
  aborted?: boolean;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** A user's message was given to the agent: its turn begins, or the running turn continues with it. An extension frame. */
export interface LoggedMessageFrame {
  type: "user_message";
  /** The message's id, given by the client or made by the server. */
  client_msg_id: string;
  /** The turn that answers it. */
  turn_id: string;
  /** Who wrote it. */
  role: "user" | "assistant" | "system" | "tool";
  /** The message's text. Absent if there is a `payload_url`. */
  content?: string;
  /** What was attached to it, without the contents. */
  attachments?: AttachmentInfo[];
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** Where to fetch the missing field as JSON. Valid for an hour; not in the log. */
  payload_url?: string;
  /** The size of that JSON in bytes. */
  payload_bytes?: number;
}

/** A call for the IDE: to show for approval or, with `requires_approval: false`, to execute. */
export interface ToolCallFrame {
  type: "tool_call";
  /** Identifies the call in every frame about it. Execute each `call_id` once. */
  call_id: string;
  /** A tool of the catalogue, or one that the client declared. */
  tool_name: string;
  /** The arguments, valid for the tool's schema. Absent if there is a `payload_url`. */
  arguments?: Record<string, unknown>;
  /** True: ask the user and send `hitl_decision`. False: execute the call. */
  requires_approval: boolean;
  /** The turn that the call belongs to. */
  turn_id?: string;
  /** If a subagent makes it: the `call_id` of its `subagent_update`. Only with extensions. */
  parent_call_id?: string;
  /** When the call times out, in milliseconds since the epoch. */
  deadline?: number;
  /** What the call can do. */
  risk?: "read" | "write" | "execute";
  /** The call in a few words, one line, shortened: show `arguments` too where a human decides. Only with extensions. */
  title?: string;
  /** What the call does, for an icon. Only with extensions. */
  kind?: "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "other";
  /** The paths that the call names, the first 30. Only with extensions. */
  paths?: string[];
  /** The remembered rule that approved the call, if any. */
  reason?: string;
  /**
   * With `requires_approval`: the rule your approval can be remembered as; null: such calls always need approval. Only
   * with extensions.
   */
  remember?: Remembrance | null;
  /**
   * True: the client that executes this command in a sandbox may approve exactly the same one again in this session,
   * if its user said so. Only with extensions.
   */
  repeatable?: boolean;
  /** False: only show the call; another connection executes it. Only with extensions. */
  execute?: boolean;
  /** The same as `arguments`, for a connection with `profile=args`. */
  args?: Record<string, unknown>;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** Where to fetch the missing field as JSON. Valid for an hour; not in the log. */
  payload_url?: string;
  /** The size of that JSON in bytes. */
  payload_bytes?: number;
}

/** A piece of a running command's output. An extension frame. */
export interface ToolProgressFrame {
  type: "tool_progress";
  /** The call whose command is running. */
  call_id: string;
  /** Where the piece begins in the whole output, if known. */
  offset?: number;
  /** The executor's `offsets`: where the piece begins in `stdout` and in `stderr`. */
  offsets?: Record<string, number>;
  /** The executor's `result`: the piece. */
  result?: unknown;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
  /** Where to fetch the missing field as JSON. Valid for an hour; not in the log. */
  payload_url?: string;
  /** The size of that JSON in bytes. */
  payload_bytes?: number;
}

/**
 * A call that the model is writing, as far as it has come. Nothing can be decided before its `tool_call` comes. Only
 * for connections with `capabilities.drafts`. It is not logged, so it has no `seq` and is in no replay; a lost one is
 * made up for by the next. An extension frame.
 */
export interface ToolCallDraftFrame {
  type: "tool_call_draft";
  /** The message whose calls these are; it may turn out to have no text. */
  message_id: string;
  /** The turn that the message belongs to. */
  turn_id: string;
  /** The call's place in the answer, from 0. It replaces the draft with this index, and voids those with higher ones. */
  index: number;
  /** The tool, not checked yet. Absent if `withdrawn`. */
  tool_name?: string;
  /** The file that the call names, once known; not checked yet. */
  path?: string;
  /** Characters of the call's texts so far, paths not counted. Absent if `withdrawn`. */
  chars?: number;
  /** Lines of these texts so far. Absent if `withdrawn`. */
  lines?: number;
  /** The newest piece of the text that is being written, at most 1 KB, cut anywhere. */
  tail?: string;
  /** True: the draft with this index is void, and so are those with higher ones. */
  withdrawn?: boolean;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** What the agent is doing, sent when it changes. `idle` ends a turn. */
export interface AgentStatusFrame {
  type: "agent_status";
  /** The new status. */
  status: Status;
  /** The status for a human. */
  message: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** A turn ended: how, and what it cost. An extension frame. */
export interface TurnEndFrame {
  type: "turn_end";
  /** The turn that ended. */
  turn_id: string;
  /** How it ended. `refused`: the model declined to answer; `budget`: the user's tokens for the day are used up. */
  reason: "completed" | "cancelled" | "max_steps" | "refused" | "budget" | "error";
  /** Tokens, Requests and, if prices are known, the cost of the whole turn. */
  usage: TurnUsage;
  /**
   * SHA-256 (hex) of the turn's last message in UTF-8, to check the text assembled from its deltas. Absent if the turn
   * ended without a message.
   */
  final_text_sha256?: string;
  /** The session's current title. The model sets it in its first answer. */
  title: string;
  /** The tokens of the newest prompt, of the `context_tokens` in `session_info.limits`. */
  context_used?: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** Another agent answers from now on. `metadata` repeats the fields: the seed documents use both places. */
export interface AgentSwitchedFrame {
  type: "agent_switched";
  /** The switch in a sentence. */
  content: string;
  /** The previous agent. */
  from_agent: string;
  /** The new agent. */
  to_agent: string;
  /** Why. */
  reason: string;
  /** When, in ISO 8601 with UTC offset. */
  timestamp: string;
  /** How sure the router was, from 0 to 1. Only in logs of earlier versions. */
  confidence?: number;
  /** Repeats `from_agent`, `to_agent`, `reason`, `timestamp` and `confidence`. */
  metadata: Record<string, unknown>;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** The session has another mode from now on: a client has switched it, or a plan was accepted. An extension frame. */
export interface ModeSwitchedFrame {
  type: "mode_switched";
  /** The previous mode. */
  from_mode: "ask" | "plan" | "manual" | "code" | "autonomous";
  /** The new mode. */
  to_mode: "ask" | "plan" | "manual" | "code" | "autonomous";
  /** The plan that was accepted, if that switched the mode. */
  call_id?: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** The agent's current plan; it replaces the previous one. No items: the plan was removed. An extension frame. */
export interface PlanFrame {
  type: "plan";
  /** The turn in which the agent wrote it. */
  turn_id: string;
  /** All steps in order. */
  items: PlanStep[];
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** A subagent works on a part of the turn, or has ended. Each frame says all that is known of it. An extension frame. */
export interface SubagentUpdateFrame {
  type: "subagent_update";
  /** The agent's call of `delegate`, and the `parent_call_id` of the subagent's calls. */
  call_id: string;
  /** The turn that it belongs to. */
  turn_id: string;
  /** The agent that works. */
  agent: string;
  /** What it has to do, shortened. */
  task: string;
  /** `running`, or how it has ended. */
  state: "running" | "completed" | "failed" | "cancelled";
  /** How often it has answered. */
  step?: number;
  /** What it has written last, shortened. */
  text?: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/**
 * A call is settled. Whoever settled it is told only the state; everybody else, and every replay, all of it. An
 * extension frame.
 */
export interface CallUpdateFrame {
  type: "call_update";
  /** The call. */
  call_id: string;
  /** Its final state. */
  state: "completed" | "failed" | "rejected" | "expired" | "cancelled";
  /** The human's decision, made or remembered, if there is one; an expired call has `reject`. */
  decision?: "approve" | "edit" | "reject";
  /** What the human said with the decision. */
  feedback?: string;
  /**
   * The arguments that a human put in place of the agent's, up to 4 KB; the `tool_call` that was sent after the edit
   * has larger ones.
   */
  arguments?: Record<string, unknown>;
  /** What the tool returned, up to 32 KB. */
  result?: unknown;
  /** Why it failed or was cancelled: `code`, `message` and perhaps `output_so_far`. */
  error?: Record<string, unknown>;
  /** Where to fetch a larger outcome: the JSON object `{result}` or `{error}`. */
  payload_url?: string;
  /** The size of that JSON in bytes. */
  payload_bytes?: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/**
 * A piece of the model's thoughts before an answer. Thoughts are no part of the answer nor of the history. An
 * extension frame.
 */
export interface AssistantThoughtFrame {
  type: "assistant_thought";
  /** The next piece of the thoughts. */
  content: string;
  /** The message that they precede; it may turn out to have no text, only calls. */
  message_id: string;
  /** The turn that they belong to. */
  turn_id: string;
  /** The agent that thinks. */
  agent?: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** The message was accepted and waits until the running turn ends. An extension frame. */
export interface QueuedFrame {
  type: "queued";
  /** The message's id, given by the client or made by the server. */
  client_msg_id: string;
  /** Its place in the queue, from 1. */
  position: number;
  /** The beginning of its text, at most 200 characters. */
  preview?: string;
  /** True: the running turn gets it at its next step, if there is one. */
  steer?: boolean;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** Messages that waited were taken back: nobody will answer them. An extension frame. */
export interface WithdrawnFrame {
  type: "withdrawn";
  /** The messages' ids. */
  client_msg_ids: string[];
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/**
 * A compaction that a client asked for has ended. Those that are made because they are due are not told. An extension
 * frame.
 */
export interface CompactedFrame {
  type: "compacted";
  /**
   * `summarised`: a summary replaces the older messages for the model. `unchanged`: there was too little to replace.
   * `failed`: the model gave no summary; ask again later.
   */
  outcome: "summarised" | "unchanged" | "failed";
  /** The history as the model was sent it, in estimated tokens. */
  tokens_before: number;
  /** The same from now on, with the summary. */
  tokens_after: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** The step that streamed this message crashed. Discard the message; a new one follows. An extension frame. */
export interface MessageDiscardedFrame {
  type: "message_discarded";
  /** The message to discard. */
  message_id: string;
  /** The turn that runs the step again. */
  turn_id: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to a single connection has none. */
  seq?: number;
  /** When the frame was logged, in milliseconds since the epoch. Only with extensions. */
  at?: number;
}

/** Stands for any client frame that was uploaded instead of sent. */
export interface ReferencedFrame {
  /** The frame's type. */
  type: "user_message" | "tool_result" | "hitl_decision" | "context_update" | "switch_agent" | "hello" | "resume" | "cancel" | "withdraw" | "compact" | "ping" | "session_config" | "refresh_token" | "upload_request" | "rules";
  /** The frame's `call_id`, if it has one. */
  call_id?: string | null;
  /** The `payload_ref` of the `upload_ticket`. */
  payload_ref: string;
  /**
   * An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another answer gets an
   * `ack`.
   */
  request_id?: string | null;
}

/**
 * Sent by API Gateway, without a `type`, when it throttles frames, or when a function failed or took longer than 29
 * seconds. The connection stays open. Wait for a random time that grows with each refusal (half a second to a minute),
 * then send `resume` alone; after `resumed`, send the frame again. It may have been accepted: a `user_message` is
 * recognised as a repeat only by its `client_msg_id`.
 */
export interface GatewayErrorFrame {
  /**
   * `Too Many Requests` (the throttle of the stage or of a route), `Internal server error`, `Endpoint request timed
   * out`, or `Forbidden` (no route takes the frame).
   */
  message: string;
  /** API Gateway's id of the connection. */
  connectionId: string;
  /** API Gateway's id of the request, as in its log. */
  requestId: string;
}

/** An agent that works on what another one gives it by the tool `delegate`. */
export interface AgentDeclaration {
  /** What it is delegated to by: at most 32 of a-z, 0-9, `_` and `-`, and none of the server's agents. */
  name: string;
  /** What it is for. The agent that delegates reads this as data. */
  description: string;
  /** How it works, at most 8,000 bytes. It reads this as instructions of the project, below its rules. */
  prompt: string;
  /**
   * Its tools, of those that the agent has that delegates to it; other names are ignored. Absent: all of those. None
   * of them talks to the user or delegates.
   */
  tools?: string[] | null;
  /** It only reads, also while the session's agent acts. Absent: the session's mode. */
  mode?: "ask" | "plan" | null;
  /** The model that answers, if `session_info.models` has it; otherwise the session's. */
  model?: string | null;
}

/** An agent that a session can switch to. */
export interface AgentInfo {
  /** Its name, for `switch_agent`. */
  name: string;
  /** What it is for. */
  description: string;
  /** True: it does not answer; it chooses the agent that does, for the next message. */
  routes?: boolean;
}

/** An image or a text that comes with a message: `media_type` and `data`, or `content`. */
export interface Attachment {
  /** What it is. */
  type: "image" | "text";
  /** Its name, such as that of a file, on one line. */
  name?: string | null;
  /** Of an image: its type. */
  media_type?: "image/png" | "image/jpeg" | "image/gif" | "image/webp" | null;
  /** Of an image: its bytes in base64, at most 5,000,000 before that. */
  data?: string | null;
  /** Of a text: the text. */
  content?: string | null;
}

/** An attachment of a message, without its content. */
export interface AttachmentInfo {
  /** What it is. */
  type: "image" | "text";
  /** Its name, if it has one. */
  name?: string;
  /** The type of an image. */
  media_type?: string;
  /** Its size. */
  bytes: number;
}

/** What a client can do beyond the basics. */
export interface Capabilities {
  /** The client's own tools. Replaces those that this connection declared before; absent: keeps them. */
  tools?: ToolDeclaration[] | null;
  /**
   * The tools of the catalogue that this client executes; the agent is offered no others. Absent: those of the seed
   * documents, or what this connection said before.
   */
  tools_supported?: string[] | null;
  /**
   * True: send `tool_call_draft` frames while the model writes a call. Absent: as this connection said before, at
   * first false.
   */
  drafts?: boolean | null;
}

/** The file that a `context_update` adds or removes. */
export interface ContextFile {
  /** The file, relative to the workspace. Not needed with `clear`. */
  path?: string | null;
  /** With `add_file`: its content. If absent, the agent reads the file when needed. */
  content?: string | null;
}

/**
 * Where the calls run and how things stand there, for the model: `hello` tells what stays, a message what changes.
 * Each is a line of at most 300 characters, except `tree`.
 */
export interface Environment {
  /** The operating system, such as `Linux 6.1`. */
  os?: string | null;
  /** What runs commands, such as `bash`. */
  shell?: string | null;
  /** The workspace's name. */
  workspace?: string | null;
  /** What commands can reach. */
  sandbox?: string | null;
  /** The date, perhaps with the time, where the user is. */
  date?: string | null;
  /** The branch, and what is not committed. */
  git?: string | null;
  /** The upper levels of the workspace's files, one name a line, at most 6,000 characters. */
  tree?: string | null;
}

/** Every code a client can receive, on the WebSocket or over REST. `FACTS` explains each. */
export type ErrorCode = "INVALID_FORMAT" | "INVALID_TYPE" | "MISSING_FIELD" | "INVALID_ARGUMENTS" | "INVALID_CALL_ID" | "PERMISSION_DENIED" | "BUSY" | "RATE_LIMITED" | "UNAUTHORIZED" | "SESSION_EXPIRED" | "SESSION_NOT_FOUND" | "DATABASE_ERROR" | "PAYLOAD_TOO_LARGE" | "CONTEXT_TOO_LARGE" | "LLM_ERROR" | "AGENT_ERROR" | "TOOL_NOT_FOUND" | "EXECUTION_FAILED" | "TIMEOUT" | "CANCELLED" | "FILE_NOT_FOUND" | "FILE_TOO_LARGE" | "INVALID_PATH" | "PATH_OUTSIDE_WORKSPACE" | "ENCODING_ERROR" | "GIT_NOT_INITIALIZED" | "GIT_ERROR" | "PATCH_APPLY_FAILED";

/** A file with instructions of the project, such as AGENTS.md. */
export interface Instruction {
  /** The file as the user knows it, on one line. */
  path: string;
  /** Its content, at most 32,000 characters. */
  content: string;
}

/** A model that a session can choose. */
export interface ModelInfo {
  /** Its name, for `session_config`. */
  name: string;
  /** The most tokens of a session that it is sent with a step. */
  context_tokens: number;
  /** Whether it takes images. */
  images: boolean;
  /** The levels for `session_config`'s `thinking`; empty if its thinking cannot be set. */
  thinking: ("none" | "low" | "medium" | "high")[];
}

/** Where a piece of output begins in each stream, in characters from the stream's start. */
export interface Offsets {
  /** In its standard output. */
  stdout?: number;
  /** In its standard error. */
  stderr?: number;
}

/** An open call in `session_info` or `resumed`. In `session_info` it has all that its `tool_call` frame has. */
export interface PendingCall {
  /** The call. */
  call_id: string;
  /** Its tool. */
  tool_name: string;
  /** What it waits for. */
  state: "awaiting_approval" | "executing";
  /** When it times out, in milliseconds since the epoch. */
  deadline: number;
  /** The turn that it belongs to. Only in `session_info`. */
  turn_id?: string;
  /** As in `tool_call`. */
  parent_call_id?: string;
  /** Its arguments, or those that replaced them. Only in `session_info`. */
  arguments?: Record<string, unknown>;
  /** Where to fetch `arguments` as JSON if they are too large. Valid for an hour. */
  payload_url?: string;
  /** The size of that JSON in bytes. */
  payload_bytes?: number;
  /** What it can do. Only in `session_info`. */
  risk?: "read" | "write" | "execute";
  /** As in `tool_call`. Only in `session_info`. */
  title?: string;
  /** As in `tool_call`. Only in `session_info`. */
  kind?: "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "other";
  /** As in `tool_call`. Only in `session_info`. */
  paths?: string[];
  /** As in `tool_call`; absent: such calls always need approval. Only in `session_info`. */
  remember?: Remembrance;
}

/** One item of a plan. */
export interface PlanStep {
  /** What to do in this step. */
  text: string;
  /** The step's status. */
  status: "pending" | "in_progress" | "completed";
}

/** The parts of a turn's prompts, in estimated tokens. The Request that chooses an agent is not included. */
export interface PromptDetails {
  /** The agent's instructions. */
  system_tokens: number;
  /** The tools it may call. */
  tools_tokens: number;
  /** The project's instructions and the context files. */
  files_tokens: number;
  /** The conversation, with the results of calls. */
  history_tokens: number;
}

/** A message that waits, in `session_info`. The list is in the order in which they will be answered. */
export interface QueuedMessage {
  /** The message's id, given by the client or made by the server. */
  client_msg_id: string;
  /** The beginning of its text, at most 200 characters. */
  preview: string;
  /** When it was accepted, in milliseconds since the epoch. */
  at: number;
  /** True: the running turn gets it at its next step, if there is one. */
  steer?: boolean;
}

/** A user's quota over all sessions. */
export interface Quota {
  /** Used since the window began; for `open_turns`, the turns open now. */
  used: number;
  /** The limit. */
  limit: number;
  /** When the window ends, in milliseconds since the epoch; absent for `open_turns`. */
  resets_at?: number;
}

/** Remember this decision for later calls: `approve` and `edit` allow them, `reject` denies them. */
export interface Remember {
  /** For this session, or for all sessions of the user. */
  scope: "session" | "user";
  /**
   * A glob that a call's paths must match, such as `docs/**`; `**` covers every call of the tool. Without it, the rule
   * covers calls with the same paths or, for a tool without paths, the same arguments.
   */
  pattern?: string | null;
}

/** The approval rule that an approval of the call can create. */
export interface Remembrance {
  /** What the rule covers without a pattern, human-readable and never cut. */
  rule: string;
  /** The scopes allowed in `remember`. */
  scopes: ("session" | "user")[];
}

/** A remembered decision, applied to later calls without asking. */
export interface RuleInfo {
  /** The rule's id, for `revoke`. */
  rule_id: string;
  /** Where the rule applies. */
  scope: "session" | "user";
  /**
   * The agent that made the call; empty for calls made over HTTP. An `allow` rule covers only this agent's calls, a
   * `deny` rule covers every agent's.
   */
  agent: string;
  /** The tool that the rule covers. */
  tool_name: string;
  /** A `deny` rule overrides any `allow` rule. */
  decision: "allow" | "deny";
  /** The glob that paths must match, if there is one. */
  pattern?: string;
  /** What the rule covers, human-readable. */
  covers: string;
  /** When the rule was made, in milliseconds since the epoch. */
  created_at: number;
}

/** What the agent is doing (Agent Protocol, "Agent Status"). */
export type Status = "idle" | "thinking" | "executing_tool" | "waiting_approval" | "error";

/** A subagent that works. */
export interface SubagentInfo {
  /** As in `subagent_update`. */
  call_id: string;
  /** The agent that works. */
  agent: string;
  /** What it has to do, shortened. */
  task: string;
}

/** A client's own tool. It runs in the IDE like the catalogue's, and needs approval unless it is read-only. */
export interface ToolDeclaration {
  /** A name that is neither a name nor an alias in the catalogue. */
  name: string;
  /** What the tool does and when to use it. The model reads this. */
  description: string;
  /** The JSON Schema (2020-12) of the arguments: an object, not recursive, no external references. */
  parameters?: Record<string, unknown>;
  /** True: changes nothing, so it needs no approval by default. */
  read_only?: boolean;
  /**
   * True: the user trusts who wrote these words, so they may stand in the schema of the model's answers. Otherwise
   * only the names and rules do, and the model gets the words as data.
   */
  trusted?: boolean;
}

/** The usage of a turn, over all its Requests. */
export interface TurnUsage {
  /** Tokens in the prompts, as the provider counts them. */
  prompt_tokens: number;
  /** Tokens the model wrote. */
  completion_tokens: number;
  /** The part of `prompt_tokens` that the provider read from its cache. */
  cached_tokens: number;
  /** The part of `prompt_tokens` that it wrote to its cache, if it reports any. */
  cache_write_tokens?: number;
  /** The number of Requests to the model. */
  llm_calls: number;
  /** True: some numbers are estimates, because a Request was broken off before the provider counted. */
  estimated?: boolean;
  /** The cost, if the prices of all models are known. */
  cost_usd?: number;
  /** The parts of the prompts. */
  prompt_details: PromptDetails;
}

/** The `arguments` of a `tool_call`, by its `tool_name`. */
export interface ToolArguments {
  /** Read a text file of the workspace. Read a file before you change it. */
  read_file: { path: string; offset?: number; limit?: number; };
  /** Write a whole file. Creates it and its directories, or replaces its content. */
  write_file: { path: string; content: string; };
  /**
   * Replace texts in a file. Prefer it to write_file for changes: it is exact and short. Each `old` must be copied
   * exactly, with its indentation but without line numbers, and occur once: add lines around it until it does.
   */
  edit_file: { path: string; edits: { old: string; new: string; replace_all?: boolean; }[]; };
  /** List the files of a directory of the workspace. */
  list_files: { path: string; recursive?: boolean; pattern?: string; };
  /** Find files by their names, for example ** /*_test.py. */
  find_files: { glob: string; path?: string; max_results?: number; };
  /** Search the contents of the workspace's files for a text. */
  search_in_project: { query: string; path?: string; case_sensitive?: boolean; regex?: boolean; glob?: string; context?: number; max_results?: number; };
  /** Create a directory and its parents. Succeeds if the directory exists. */
  create_directory: { path: string; };
  /** Delete a file, or a directory with everything in it. */
  delete_file: { path: string; };
  /** Move or rename a file or a directory. */
  move_file: { from: string; to: string; };
  /** Run a shell command in the workspace and wait for its end; not for servers and the like. */
  run_command: { command: string; cwd?: string; };
  /** Start a long-running process, such as a development server. Returns once it has started. */
  run_persistent: { command: string; process_id: string; cwd?: string; };
  /** Read what a process that was started by run_persistent has written, and whether it still runs. */
  read_process: { process_id: string; };
  /** Stop a process that was started by run_persistent. */
  kill_process: { process_id: string; };
  /** Show changes that are not committed. */
  "git.diff": { path: string; staged?: boolean; };
  /** Show the branch and the changed files. */
  "git.status": { path?: string; };
  /** Show the history, newest commit first. */
  "git.log": { limit?: number; path?: string; };
  /** List, create, switch to or delete a branch. */
  "git.branch": { action: "list" | "create" | "switch" | "delete"; name?: string; };
  /** Commit the staged changes, or the given files. */
  "git.commit": { message: string; files?: string[]; };
  /** Apply a unified diff to the working tree, completely or not at all. */
  apply_patch: { diff: string; };
  /** Let the user choose which chunks of a diff to apply. Does not apply anything. */
  apply_patch_review: { diff: string; message?: string; };
  /** Ask the user to choose one of several actions. */
  prompt_user: { message: string; actions: string[]; };
  /** Fetch a public web page or file as text. Never put secrets or the user's data into the URL. */
  fetch_url: { url: string; };
}

/** The `result` of a `tool_result`, by tool. Extra fields are kept. */
export interface ToolResults {
  /** Read a text file of the workspace. Read a file before you change it. */
  read_file: { content: string; first_line?: number; total_lines?: number; encoding?: string; size?: number; modified?: string; message?: string; };
  /** Write a whole file. Creates it and its directories, or replaces its content. */
  write_file: { success: boolean; message?: string; bytes_written?: number; };
  /**
   * Replace texts in a file. Prefer it to write_file for changes: it is exact and short. Each `old` must be copied
   * exactly, with its indentation but without line numbers, and occur once: add lines around it until it does.
   */
  edit_file: { success: boolean; message?: string; replacements?: number; matched?: string; };
  /** List the files of a directory of the workspace. */
  list_files: { files: { name: string; type?: string; size?: number; }[]; };
  /** Find files by their names, for example ** /*_test.py. */
  find_files: { files: string[]; truncated?: boolean; };
  /** Search the contents of the workspace's files for a text. */
  search_in_project: { matches: { path: string; line?: number; text?: string; before?: string[]; after?: string[]; }[]; truncated?: boolean; };
  /** Create a directory and its parents. Succeeds if the directory exists. */
  create_directory: { success: boolean; message?: string; };
  /** Delete a file, or a directory with everything in it. */
  delete_file: { success: boolean; message?: string; };
  /** Move or rename a file or a directory. */
  move_file: { success: boolean; message?: string; };
  /** Run a shell command in the workspace and wait for its end; not for servers and the like. */
  run_command: { stdout?: string; stderr?: string; exit_code?: number | null; signal?: string | number | null; };
  /** Start a long-running process, such as a development server. Returns once it has started. */
  run_persistent: { success?: boolean; process_id?: string; status?: string; stdout?: string; stderr?: string; };
  /** Read what a process that was started by run_persistent has written, and whether it still runs. */
  read_process: { process_id: string; status: string; stdout?: string; stderr?: string; exit_code?: number | null; };
  /** Stop a process that was started by run_persistent. */
  kill_process: { success: boolean; message?: string; exit_code?: number | null; };
  /** Show changes that are not committed. */
  "git.diff": { diff: string; };
  /** Show the branch and the changed files. */
  "git.status": { files: { path: string; status?: string; staged?: boolean; }[]; branch?: string; };
  /** Show the history, newest commit first. */
  "git.log": { commits: { message: string; hash?: string; author?: string; date?: string; }[]; };
  /** List, create, switch to or delete a branch. */
  "git.branch": { success?: boolean; current?: string; branches?: string[]; message?: string; };
  /** Commit the staged changes, or the given files. */
  "git.commit": { success: boolean; message?: string; hash?: string; };
  /** Apply a unified diff to the working tree, completely or not at all. */
  apply_patch: { success: boolean; message?: string; files_modified?: string[]; };
  /** Let the user choose which chunks of a diff to apply. Does not apply anything. */
  apply_patch_review: { action: string; filtered_diff?: string; chunks_selected?: number[]; chunks_total?: number; };
  /** Ask the user to choose one of several actions. */
  prompt_user: { action: string; };
  /** Fetch a public web page or file as text. Never put secrets or the user's data into the URL. */
  fetch_url: { status: number; content: string; url?: string; content_type?: string; location?: string; truncated?: boolean; };
}

/** The `arguments` of each call that a client may see, by its `tool_name`. */
export interface CallArguments extends ToolArguments {
  /**
   * Propose a plan to the user, who accepts, edits or rejects it. Nothing can be changed before the user has accepted
   * one. Send the complete plan, again after a rejection.
   */
  propose_plan: { steps: string[]; explanation?: string; };
}

/** The server frame of a type. */
export type ServerFrameOf<Type extends ServerFrame["type"]> = Extract<ServerFrame, { type: Type }>;

/** The client frame of a type. */
export type ClientFrameOf<Type extends ClientFrame["type"]> = Extract<ClientFrame, { type: Type }>;

/** A call of one of the tools that the server knows. Clients know the arguments of their own. */
export type ToolCallFrameOf<Name extends keyof CallArguments> = {
  [Tool in Name]: ToolCallFrame & { tool_name: Tool; arguments?: CallArguments[Tool] };
}[Name];

/** Such a call of any of them: a `switch` over `tool_name` narrows it to the tool's arguments. */
export type KnownCallFrame = ToolCallFrameOf<keyof CallArguments>;
