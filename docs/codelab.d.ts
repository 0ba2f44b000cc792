// Every frame of the CodeLab WebSocket protocol. Written by `make docs` from the server's models; do not edit.
// A frame's `type` tells which one it is, so a `switch` over it narrows a ServerFrame to its interface.

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
  | PingFrame
  | SessionConfigFrame
  | RefreshTokenFrame
  | UploadRequestFrame
  | RulesFrame;

/** A frame from the server. */
export type ServerFrame =
  | AssistantMessageFrame
  | ToolCallFrame
  | ToolProgressFrame
  | AgentStatusFrame
  | ErrorFrame
  | TurnEndFrame
  | AgentSwitchedFrame
  | ContextUpdatedFrame
  | PlanFrame
  | CallUpdateFrame
  | SessionInfoFrame
  | RuleListFrame
  | ResumedFrame
  | ResyncRequiredFrame
  | PongFrame
  | QueuedFrame
  | UploadTicketFrame
  | MessageDiscardedFrame;

/** What the user says. Starts a turn, or waits for the running one. */
export interface UserMessageFrame {
  type: "user_message";
  /** What is said. */
  content: string;
  /** Who said it. Another role than `user` is kept as quoted text, never as an instruction. */
  role?: "user" | "assistant" | "system" | "tool" | null;
  /** An id of your choice: the same one sent twice is accepted once. */
  client_msg_id?: string | null;
}

/** The outcome of a call: exactly one of `result` (any JSON, null too) and `error`. */
export interface ToolResultFrame {
  type: "tool_result";
  /** The `call_id` of the `tool_call`. */
  call_id: string;
  /** What the tool gives: any JSON, and null is a success too. */
  result?: unknown;
  /** Why the tool failed: a text, or a code and a message. */
  error?: string | { code?: string | null; message?: string; } | null;
  /** The error's code, where `error` is a text or is missing. */
  error_code?: string | null;
  /** A piece of a running command's output: the call stays open and its time begins anew. */
  partial?: boolean | null;
  /** Where this piece of the output begins, in characters from its start. */
  offset?: number | null;
}

/** What the human decided about a call that awaits approval. */
export interface HitlDecisionFrame {
  type: "hitl_decision";
  /** The call that awaits approval. */
  call_id: string;
  /** A decision is made once. */
  decision: "approve" | "edit" | "reject";
  /** With `edit`: all arguments as they shall be. They must fit the tool. */
  modified_arguments?: Record<string, unknown> | null;
  /** With `reject`: the user's words, which the model is told. */
  feedback?: string | null;
  /** Decide so about calls like this one from now on, by this agent and tool. */
  remember?: Remember | null;
  /** Another name of `modified_arguments`. */
  modified_args?: Record<string, unknown> | null;
}

/** Change which files the agent is shown with every question. Answered by `context_updated`. */
export interface ContextUpdateFrame {
  type: "context_update";
  /** `clear` takes all files out; the history stays. */
  action: "add_file" | "remove_file" | "clear";
  /** Which file. */
  data?: ContextFile | null;
  /** If it is given, it must be this connection's session. */
  session_id?: string | null;
}

/** The user wants another agent; with `content`, to say something to it at once. */
export interface SwitchAgentFrame {
  type: "switch_agent";
  /** The agent's name. */
  agent_type: string;
  /** Said to the new agent as a user's message, unless it is empty. */
  content?: string | null;
  /** Why, as `agent_switched` repeats it. */
  reason?: string | null;
  /** As in `user_message`, for `content`. */
  client_msg_id?: string | null;
}

/** The client introduces itself, and speaks extensions from here on. Answered by `session_info`. */
export interface HelloFrame {
  type: "hello";
  /** The program: `name` and `version`. */
  client?: Record<string, unknown> | null;
  /** What the commands run on: `linux`, `macos` or `windows`. Anything else is unknown. */
  platform?: string | null;
  /** What the client can do beyond the basics. */
  capabilities?: Capabilities | null;
}

/** Send every frame after `last_seq` again, then go on live. */
export interface ResumeFrame {
  type: "resume";
  /** The highest `seq` up to which the client has every frame; 0 for none. */
  last_seq: number;
}

/** Stop the running turn. Never an error when nothing runs. */
export interface CancelFrame {
  type: "cancel";
  /** Stop only this turn. */
  turn_id?: string | null;
}

/** Answered by `pong` with the same fields; keeps API Gateway's idle timer away. */
export interface PingFrame {
  type: "ping";
  [field: string]: unknown;
}

/** Change how the session behaves. Answered by `session_info`. */
export interface SessionConfigFrame {
  type: "session_config";
  /** The model that is asked from the next step on: one that the server offers. */
  model?: string | null;
  /** What becomes of a message that comes while a turn runs. */
  when_busy?: "queue" | "reject" | "interrupt" | null;
  /** How much the agent may do without asking. */
  autonomy?: "manual" | "balanced" | "autonomous" | null;
  /** The session's title. */
  title?: string | null;
}

/** A new token of the same user, before or after the connection's first one has expired. */
export interface RefreshTokenFrame {
  type: "refresh_token";
  /** A JWT whose `sub` is the connection's user. */
  token: string;
}

/** Ask where to upload a frame that is too large for a WebSocket message. Answered by `upload_ticket`. */
export interface UploadRequestFrame {
  type: "upload_request";
  /** How many bytes of UTF-8 the frame's JSON has, exactly. */
  bytes: number;
}

/** List what was remembered, or revoke a rule. Answered by `rules`. */
export interface RulesFrame {
  type: "rules";
  /** What is to be done. */
  action: "list" | "revoke";
  /** With `revoke`: the rule that no longer counts. */
  rule_id?: string | null;
}

/** A delta of the answer; `content` repeats `token` for clients that read that name. */
export interface AssistantMessageFrame {
  type: "assistant_message";
  /** The next piece of the text. May be empty in the last frame of a message. */
  token: string;
  /** The same as `token`. */
  content: string;
  /** The message ends with this frame. Exactly one frame of a message says so. */
  is_final: boolean;
  /** Which message this is a piece of. */
  message_id: string;
  /** The turn that answers. */
  turn_id: string;
  /** The agent that speaks. */
  agent?: string;
  /** True: the message was cut off, and what it said is void. */
  aborted?: boolean;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/** A call for the IDE: to show for approval, or (`requires_approval: false`) to execute. */
export interface ToolCallFrame {
  type: "tool_call";
  /** Names the call in every frame about it. Execute a `call_id` once. */
  call_id: string;
  /** A tool of the catalogue, or one that the client has declared. */
  tool_name: string;
  /** What the tool's schema asks for. Missing where there is a `payload_url`. */
  arguments?: Record<string, unknown>;
  /** True: ask the user and send `hitl_decision`. False: execute it. */
  requires_approval: boolean;
  /** The turn that the call belongs to. */
  turn_id?: string;
  /** When the call ends unanswered, in milliseconds since the epoch. */
  deadline?: number;
  /** What the call can do. */
  risk?: "read" | "write" | "execute";
  /** The remembered rule that has approved it, if one has. */
  reason?: string;
  /**
   * Where you are asked: what your approval may be remembered as; null: it is asked about every time. Only with
   * extensions.
   */
  remember?: Remembrance | null;
  /** False: shown here, executed in another window. Only with extensions. */
  execute?: boolean;
  /** The same as `arguments`, for a connection with `profile=args`. */
  args?: Record<string, unknown>;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
  /** Where the field that is missing can be fetched, as JSON. For an hour; never logged. */
  payload_url?: string;
  /** How many bytes are there. */
  payload_bytes?: number;
}

/**
 * A piece of a running command's output, as its executor sent it. An extension: sent only to a connection that asked
 * for extensions.
 */
export interface ToolProgressFrame {
  type: "tool_progress";
  /** The call whose command runs. */
  call_id: string;
  /** Where the piece begins, as its executor said. */
  offset?: number;
  /** The piece, as its executor sent it. */
  result?: unknown;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
  /** Where the field that is missing can be fetched, as JSON. For an hour; never logged. */
  payload_url?: string;
  /** How many bytes are there. */
  payload_bytes?: number;
}

/** What the agent does now, sent when it changes. `idle` ends a turn. */
export interface AgentStatusFrame {
  type: "agent_status";
  /** One of five. */
  status: Status;
  /** The same for a human. */
  message: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
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
  /** What helps to correct it: `field` names the offending field. */
  details: Record<string, unknown>;
  /** Can the same succeed when it is sent again later? */
  retryable: boolean;
  /** The call that the refused frame named. */
  call_id?: string;
  /** In how many seconds to try again, where that is known; also in `details`. */
  retry_after?: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/** A turn is over: how it ended and what it cost. An extension: sent only to a connection that asked for extensions. */
export interface TurnEndFrame {
  type: "turn_end";
  /** The turn that ended. */
  turn_id: string;
  /** How it ended; `refused`: the model declined to answer; `budget`: the user's tokens of the day are used up. */
  reason: "completed" | "cancelled" | "max_steps" | "refused" | "budget" | "error";
  /** Tokens, model calls and, where prices are known, the cost of the whole turn. */
  usage: TurnUsage;
  /**
   * SHA-256 (hex) of the UTF-8 of the turn's last message, to check what was put together from its deltas. Absent
   * where the turn ended without one.
   */
  final_text_sha256?: string;
  /** The session's title as it is now: the model gives it one in its first answer. */
  title: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/** Another agent answers from here on. `metadata` says it once more, for clients that look there. */
export interface AgentSwitchedFrame {
  type: "agent_switched";
  /** The switch in a sentence. */
  content: string;
  /** Who answered until now. */
  from_agent: string;
  /** Who answers from here on. */
  to_agent: string;
  /** Why. */
  reason: string;
  /** When, in ISO 8601 with UTC offset. */
  timestamp: string;
  /** How sure a router was, from 0 to 1. */
  confidence?: number;
  /** `from_agent`, `to_agent`, `reason`, `timestamp` and `confidence` once more. */
  metadata: Record<string, unknown>;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * What the context holds now; the answer to `context_update`. An extension: sent only to a connection that asked for
 * extensions.
 */
export interface ContextUpdatedFrame {
  type: "context_updated";
  /** What was done: the action of the `context_update`. */
  action: string;
  /** The file that it was done to. */
  path?: string;
  /** How many files there are now. */
  files: number;
  /** What they take of the model's context, in tokens, estimated. */
  context_size: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * The agent's plan as it stands; it replaces the one before. No items: there is none any more. An extension: sent only
 * to a connection that asked for extensions.
 */
export interface PlanFrame {
  type: "plan";
  /** The turn in which the agent has made it. */
  turn_id: string;
  /** All steps in order. */
  items: PlanStep[];
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * What became of a call that another connection, the time or a cancel has decided. An extension: sent only to a
 * connection that asked for extensions.
 */
export interface CallUpdateFrame {
  type: "call_update";
  /** The call. */
  call_id: string;
  /** Its state from now on. */
  state: "completed" | "failed" | "rejected" | "expired" | "cancelled";
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * The session as it is; the answer to `hello`, `session_config` and `refresh_token`. An extension: sent only to a
 * connection that asked for extensions.
 */
export interface SessionInfoFrame {
  type: "session_info";
  /** The session, also when the server has made up its id. */
  session_id: string;
  /** The agent that answers. */
  agent: string;
  /** What it does now. */
  status: Status;
  /** The session's title, empty while it has none. */
  title: string;
  /** The running turn. */
  turn_id?: string;
  /** The `seq` of the newest frame. */
  last_seq: number;
  /** The calls that are still open. */
  pending_calls: PendingCall[];
  /** The agent's plan as it stands, empty while it has none. */
  plan: PlanStep[];
  /** What `session_config` has set. */
  settings: Record<string, unknown>;
  /** Sizes and counts that the server allows. */
  limits: Record<string, number>;
  /**
   * What the user may use, by name: `messages_per_minute`, `requests_per_minute`, `tokens_per_day`,
   * `connections_per_minute`, `stored_bytes_per_day`, `open_turns`. What has no limit is not named.
   */
  quotas?: Record<string, Quota>;
  /** The version of this protocol that the server speaks. */
  protocol_version: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/** What was remembered; the answer to `rules`. An extension: sent only to a connection that asked for extensions. */
export interface RuleListFrame {
  type: "rules";
  /** Those of the session, then those of the user, the oldest first. */
  rules: RuleInfo[];
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * The replay is complete (with `more`: ask again). Only `open_calls` are still to be executed. An extension: sent only
 * to a connection that asked for extensions.
 */
export interface ResumedFrame {
  type: "resumed";
  /** The replay reached to this `seq`. */
  last_seq: number;
  /** The calls that are still open; no others are to be executed. */
  open_calls: PendingCall[];
  /** True: there are later frames, send `resume` again. */
  more?: boolean;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * The log does not reach back to the client's `last_seq`: read the history instead. An extension: sent only to a
 * connection that asked for extensions.
 */
export interface ResyncRequiredFrame {
  type: "resync_required";
  /** The `seq` of the newest frame. */
  last_seq: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/** The answer to `ping`, with all of its fields. An extension: sent only to a connection that asked for extensions. */
export interface PongFrame {
  type: "pong";
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
  [field: string]: unknown;
}

/**
 * The message was accepted and waits for the running turn to end. An extension: sent only to a connection that asked
 * for extensions.
 */
export interface QueuedFrame {
  type: "queued";
  /** The message, by the client's id or one that the server has made. */
  client_msg_id: string;
  /** Its place in the queue, from 1. */
  position: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * Where to upload a frame, once; the answer to `upload_request`. An extension: sent only to a connection that asked
 * for extensions.
 */
export interface UploadTicketFrame {
  type: "upload_ticket";
  /** Names the upload in the frame that stands for it. */
  payload_ref: string;
  /** PUT the frame's JSON here. */
  url: string;
  /** Send exactly these with it. */
  headers: Record<string, string>;
  /** Until when it can be uploaded and named, in milliseconds since the epoch. */
  expires_at: number;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/**
 * The step that streamed this message died; what follows is a new message. An extension: sent only to a connection
 * that asked for extensions.
 */
export interface MessageDiscardedFrame {
  type: "message_discarded";
  /** The message whose text is void. */
  message_id: string;
  /** The turn that answers anew. */
  turn_id: string;
  /** The frame's number in the session: 1, 2, 3, … A reply to one connection has none. */
  seq?: number;
}

/** Any frame of the client that was uploaded instead: `payload_ref` is the ticket's. */
export interface ReferencedFrame {
  /** The frame's type. */
  type: "user_message" | "tool_result" | "hitl_decision" | "context_update" | "switch_agent" | "hello" | "resume" | "cancel" | "ping" | "session_config" | "refresh_token" | "upload_request" | "rules";
  /** The frame's `call_id`, if it has one. */
  call_id?: string | null;
  /** What the `upload_ticket` says. */
  payload_ref: string;
}

/**
 * What API Gateway itself sends when a function has failed or taken longer than 29 seconds: it has no `type`. The
 * connection stays open; send the frame again.
 */
export interface GatewayErrorFrame {
  /** `Internal server error` or `Endpoint request timed out`. */
  message: string;
  /** The connection, as API Gateway names it. */
  connectionId: string;
  /** The request, as API Gateway's log names it. */
  requestId: string;
}

/** What a client can do beyond the basics. */
export interface Capabilities {
  /** The client's own tools, in place of those that this connection has declared; absent: they stay. */
  tools?: ToolDeclaration[] | null;
}

/** The file that a `context_update` is about. */
export interface ContextFile {
  /** The file, relative to the workspace. `clear` needs none. */
  path?: string | null;
  /** With `add_file`: what is in it. Without, the agent reads the file when it needs it. */
  content?: string | null;
}

/** Every code a client can meet, on the WebSocket or over REST. `FACTS` says what each means. */
export type ErrorCode = "INVALID_FORMAT" | "INVALID_TYPE" | "MISSING_FIELD" | "INVALID_ARGUMENTS" | "INVALID_CALL_ID" | "PERMISSION_DENIED" | "BUSY" | "RATE_LIMITED" | "UNAUTHORIZED" | "SESSION_EXPIRED" | "SESSION_NOT_FOUND" | "DATABASE_ERROR" | "PAYLOAD_TOO_LARGE" | "CONTEXT_TOO_LARGE" | "LLM_ERROR" | "AGENT_ERROR" | "TOOL_NOT_FOUND" | "EXECUTION_FAILED" | "TIMEOUT" | "CANCELLED" | "FILE_NOT_FOUND" | "FILE_TOO_LARGE" | "INVALID_PATH" | "PATH_OUTSIDE_WORKSPACE" | "ENCODING_ERROR" | "GIT_NOT_INITIALIZED" | "GIT_ERROR" | "PATCH_APPLY_FAILED";

/** A call that is still open, in `session_info` and `resumed`. */
export interface PendingCall {
  /** The call. */
  call_id: string;
  /** Its tool. */
  tool_name: string;
  /** What it waits for. */
  state: "awaiting_approval" | "executing";
  /** When it ends unanswered, in milliseconds since the epoch. */
  deadline: number;
}

/** One item of a plan. */
export interface PlanStep {
  /** What is done in this step. */
  text: string;
  /** How far it is. */
  status: "pending" | "in_progress" | "completed";
}

/**
 * What the prompts of a turn's answers were made of, in tokens, estimated. The Request that chooses an agent is not
 * among them.
 */
export interface PromptDetails {
  /** The agent's instructions. */
  system_tokens: number;
  /** The tools it may call. */
  tools_tokens: number;
  /** The context files. */
  files_tokens: number;
  /** The conversation, with the results of calls. */
  history_tokens: number;
}

/** What a user may use of something, all sessions together. */
export interface Quota {
  /** What was used since the window began; of open turns those that are open. */
  used: number;
  /** What may be used. */
  limit: number;
  /** When the window ends, in milliseconds since the epoch; absent for open turns. */
  resets_at?: number;
}

/** Decide so from now on: `approve` and `edit` are remembered as allowing, `reject` as denying. */
export interface Remember {
  /** For this session, or for all sessions of the user. */
  scope: "session" | "user";
  /**
   * A glob that a call's paths must match, such as `docs/**`; `**` is any call of the tool. Without it: calls with the
   * same paths, or, for a tool that takes none, with exactly these arguments.
   */
  pattern?: string | null;
}

/** What an approval of a call may be remembered as. */
export interface Remembrance {
  /** What it covers without a pattern, for people to read: a command is shown whole. */
  rule: string;
  /** The scopes that `remember` may have. */
  scopes: ("session" | "user")[];
}

/** A decision that is made without asking. */
export interface RuleInfo {
  /** Names the rule, for `revoke`. */
  rule_id: string;
  /** Where it counts. */
  scope: "session" | "user";
  /**
   * The agent whose call was decided about; empty for calls that were made over HTTP. One that allows is about the
   * calls of this agent, one that denies about everybody's.
   */
  agent: string;
  /** The tool that they call. */
  tool_name: string;
  /** A rule that denies wins over any that allows. */
  decision: "allow" | "deny";
  /** The glob that paths must match, if it was given one. */
  pattern?: string;
  /** What it covers, for people to read. */
  covers: string;
  /** When it was made, in milliseconds since the epoch. */
  created_at: number;
}

/** What the agent does (Agent Protocol, "Agent Status"). */
export type Status = "idle" | "thinking" | "executing_tool" | "waiting_approval" | "error";

/** A tool of the client's own. It runs in the IDE as the catalogue's do, and asks unless it only reads. */
export interface ToolDeclaration {
  /** A name that no tool of the catalogue has, as a name or an alias. */
  name: string;
  /** What it does and when to use it: the model chooses by it. */
  description: string;
  /** The JSON Schema (2020-12) of its arguments: an object, not recursive, without outside references. */
  parameters?: Record<string, unknown>;
  /** It changes nothing, and so needs no approval by default. */
  read_only?: boolean;
}

/** What a turn has used, all its Requests together. */
export interface TurnUsage {
  /** Tokens that the model has read, as the provider counts them. */
  prompt_tokens: number;
  /** Tokens that it has written. */
  completion_tokens: number;
  /** Those of the prompt that the provider had in its cache. */
  cached_tokens: number;
  /** How often the model was asked. */
  llm_calls: number;
  /** What that costs, if the prices of all models are known. */
  cost_usd?: number;
  /** The prompts by what they were made of. */
  prompt_details: PromptDetails;
}

/** The `arguments` of a `tool_call`, by its `tool_name`. */
export interface ToolArguments {
  /** Read a text file of the workspace. Read a file before you change it. */
  read_file: { path: string; };
  /** Write a whole file: creates it and its directories, or replaces what is there. */
  write_file: { path: string; content: string; };
  /** List the files of a directory of the workspace. */
  list_files: { path: string; recursive?: boolean; pattern?: string; };
  /** Search the contents of the workspace's files for a text. */
  search_in_project: { query: string; path?: string; case_sensitive?: boolean; };
  /** Create a directory, with those above it. One that exists is no error. */
  create_directory: { path: string; };
  /** Delete a file, or a directory with everything in it. */
  delete_file: { path: string; };
  /** Move or rename a file or a directory. */
  move_file: { from: string; to: string; };
  /** Run a shell command in the workspace and wait for its end; not for a server or the like. */
  run_command: { command: string; cwd?: string; };
  /** Start a process that runs on, such as a development server. Returns once it has started. */
  run_persistent: { command: string; process_id: string; cwd?: string; };
  /** Stop a process that was started by run_persistent. */
  kill_process: { process_id: string; };
  /** Show what was changed and is not committed. */
  "git.diff": { path: string; staged?: boolean; };
  /** Show the branch and which files were changed. */
  "git.status": { path?: string; };
  /** Show the history, the newest commit first. */
  "git.log": { limit?: number; path?: string; };
  /** List, create, switch to or delete a branch. */
  "git.branch": { action: "list" | "create" | "switch" | "delete"; name?: string; };
  /** Commit what is staged, or the files that are named. */
  "git.commit": { message: string; files?: string[]; };
  /** Apply a unified diff to the working tree, all of it or nothing. */
  apply_patch: { diff: string; };
  /** Let the user choose which chunks of a diff to apply. Nothing is applied by it. */
  apply_patch_review: { diff: string; message?: string; };
  /** Ask the user to choose one of several actions. */
  prompt_user: { message: string; actions: string[]; };
}

/** The `result` of a `tool_result`, by the tool. More fields than these are kept. */
export interface ToolResults {
  /** Read a text file of the workspace. Read a file before you change it. */
  read_file: { content: string; encoding?: string; size?: number; modified?: string; };
  /** Write a whole file: creates it and its directories, or replaces what is there. */
  write_file: { success: boolean; message?: string; bytes_written?: number; };
  /** List the files of a directory of the workspace. */
  list_files: { files: { name: string; type?: string; size?: number; }[]; };
  /** Search the contents of the workspace's files for a text. */
  search_in_project: { matches: { path: string; line?: number; text?: string; }[]; truncated?: boolean; };
  /** Create a directory, with those above it. One that exists is no error. */
  create_directory: { success: boolean; message?: string; };
  /** Delete a file, or a directory with everything in it. */
  delete_file: { success: boolean; message?: string; };
  /** Move or rename a file or a directory. */
  move_file: { success: boolean; message?: string; };
  /** Run a shell command in the workspace and wait for its end; not for a server or the like. */
  run_command: { stdout?: string; stderr?: string; exit_code?: number | null; signal?: string | number | null; };
  /** Start a process that runs on, such as a development server. Returns once it has started. */
  run_persistent: { success?: boolean; process_id?: string; status?: string; stdout?: string; stderr?: string; };
  /** Stop a process that was started by run_persistent. */
  kill_process: { success: boolean; message?: string; exit_code?: number | null; };
  /** Show what was changed and is not committed. */
  "git.diff": { diff: string; };
  /** Show the branch and which files were changed. */
  "git.status": { files: { path: string; status?: string; staged?: boolean; }[]; branch?: string; };
  /** Show the history, the newest commit first. */
  "git.log": { commits: { message: string; hash?: string; author?: string; date?: string; }[]; };
  /** List, create, switch to or delete a branch. */
  "git.branch": { success?: boolean; current?: string; branches?: string[]; message?: string; };
  /** Commit what is staged, or the files that are named. */
  "git.commit": { success: boolean; message?: string; hash?: string; };
  /** Apply a unified diff to the working tree, all of it or nothing. */
  apply_patch: { success: boolean; message?: string; files_modified?: string[]; };
  /** Let the user choose which chunks of a diff to apply. Nothing is applied by it. */
  apply_patch_review: { action: string; filtered_diff?: string; chunks_selected?: number[]; chunks_total?: number; };
  /** Ask the user to choose one of several actions. */
  prompt_user: { action: string; };
}

/** The server's frame of that type. */
export type ServerFrameOf<Type extends ServerFrame["type"]> = Extract<ServerFrame, { type: Type }>;

/** The client's frame of that type. */
export type ClientFrameOf<Type extends ClientFrame["type"]> = Extract<ClientFrame, { type: Type }>;
