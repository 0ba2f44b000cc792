import { newId } from "./address.ts";
import type { Accepts } from "./asking.ts";
import { Conversation } from "./conversation.ts";
import type { SessionEvent, SessionEventOf } from "./events.ts";
import type { SessionOptions } from "./options.ts";
import type {
  AgentSwitchedFrame,
  ClientFrame,
  ContextUpdatedFrame,
  HitlDecisionFrame,
  PlanStep,
  Remember,
  RuleInfo,
  RuleListFrame,
  SessionConfigFrame,
  SessionInfoFrame,
  Status,
  ToolCallFrame,
} from "./protocol.ts";
import type { Rest } from "./rest.ts";
import { Turn } from "./turn.ts";
import type { Wire } from "./wire.ts";

/** A human's decision about a call. `edit` needs all arguments, not only the changed ones. */
export type Answer =
  | { decision: "approve"; remember?: Remember }
  | { decision: "edit"; arguments: Record<string, unknown>; remember?: Remember }
  | { decision: "reject"; feedback?: string; remember?: Remember };

export interface PromptOptions {
  /** Images and texts for the model. */
  attachments?: readonly Record<string, unknown>[];
  /** What happens to this message while a turn runs. */
  whenBusy?: "queue" | "steer" | "interrupt" | "reject";
}

/**
 * One conversation with the server, which survives broken connections. Methods that ask the server for something
 * settle with its reply, also across a broken connection; they reject with a SessionError if it refuses, or if the
 * session has ended.
 */
export class Session {
  readonly sessionId: string;
  readonly rest: Rest;
  /** What happens on the wire, for an inspector. */
  readonly wire: Wire;
  readonly #conversation: Conversation;

  constructor(options: SessionOptions) {
    this.#conversation = new Conversation(options);
    const { sessionId, rest, wire } = this.#conversation;
    this.sessionId = sessionId;
    this.rest = rest;
    this.wire = wire;
  }

  /** Connect. Settles when everything missed has been replayed. */
  async open(): Promise<this> {
    await this.#conversation.open();
    return this;
  }

  /** Stop running calls, whose results say so, and close the connection. */
  close(): Promise<void> {
    return this.#conversation.close();
  }

  // -- what is known -------------------------------------------------------------------------------------------

  /** The last `session_info`. */
  get info(): SessionInfoFrame | undefined {
    return this.#conversation.info;
  }

  get status(): Status {
    return this.#conversation.status;
  }

  get agent(): string {
    return this.#conversation.agent;
  }

  get title(): string {
    return this.#conversation.title;
  }

  get plan(): PlanStep[] {
    return this.#conversation.plan;
  }

  /** Call `listener` for each event of a type, or for all with `*`. Returns what stops that. */
  on<Type extends SessionEvent["type"]>(type: Type, listener: (event: SessionEventOf<Type>) => void): () => void;
  on(type: "*", listener: (event: SessionEvent) => void): () => void;
  on(type: SessionEvent["type"] | "*", listener: (event: any) => void): () => void {
    return this.#conversation.subscribers.on(type, listener);
  }

  /** All events for one reader: since the session was opened for the first reader, from now on for others. */
  events(): AsyncIterableIterator<SessionEvent> {
    return this.#conversation.subscribers.events();
  }

  /** The calls that are known to be open, by `call_id`. */
  get openCalls(): ReadonlyMap<string, ToolCallFrame> {
    return this.#conversation.openCalls.byId;
  }

  /** The `seq` of the last frame that was shown. */
  get lastSeq(): number {
    return this.#conversation.lastSeq;
  }

  /** Whether the connection is open and everything missed has been replayed. */
  get isOnline(): boolean {
    return this.#conversation.isOnline;
  }

  // -- talking -------------------------------------------------------------------------------------------------

  /** Send a message. Iterate over the turn for its events, or await `turn.ended` or `turn.text()`. */
  prompt(content: string, options: PromptOptions = {}): Turn {
    const id = newId();
    const frame = {
      type: "user_message",
      content,
      role: "user",
      client_msg_id: id,
      ...(options.attachments && { attachments: options.attachments }),
      ...(options.whenBusy && { when_busy: options.whenBusy }),
    } as const;
    const accepted = this.request(frame, (event) =>
      (event.type === "queued" || event.type === "user_message") && event.client_msg_id === id,
    ).then(() => {});
    const turn = new Turn(id, accepted, (ended) => this.#conversation.turns.delete(ended));
    this.#conversation.turns.add(turn);
    return turn;
  }

  /** Decide about a call that needs approval. The decision is repeated until the server has it. */
  answer(callId: string, answer: Answer): void {
    this.#conversation.checkOpen();
    const frame: HitlDecisionFrame = {
      type: "hitl_decision",
      call_id: callId,
      decision: answer.decision,
      ...(answer.decision === "edit" && { modified_arguments: answer.arguments }),
      ...(answer.decision === "reject" && answer.feedback && { feedback: answer.feedback }),
      ...(answer.remember && { remember: answer.remember }),
    };
    this.#conversation.openCalls.decide(frame);
  }

  /** Stop the running turn, or the one that a message that is on its way starts. */
  cancel(): void {
    this.#conversation.cancel();
  }

  /** Let another agent answer from now on. */
  async switchAgent(agent: string): Promise<AgentSwitchedFrame | undefined> {
    if (agent === this.agent) return undefined;
    const frame = { type: "switch_agent", agent_type: agent } as const;
    return this.request<AgentSwitchedFrame>(frame, (event) => event.type === "agent_switched" && event.to_agent === agent);
  }

  /** Change the session's settings. Gives the session's state. */
  configure(settings: Omit<SessionConfigFrame, "type">): Promise<SessionInfoFrame> {
    const wanted = Object.entries(settings).filter(([, value]) => value != null);
    return this.request({ type: "session_config", ...Object.fromEntries(wanted) }, (event) =>
      // A reply to an earlier frame that was sent twice does not have them.
      event.type === "session_info" &&
      wanted.every(([name, value]) => (name === "title" ? event.title : event.settings[name]) === value),
    );
  }

  /** The remembered rules. */
  async rules(): Promise<RuleInfo[]> {
    const list: RuleListFrame = await this.request({ type: "rules", action: "list" }, (event) => event.type === "rules");
    return list.rules;
  }

  /** Revoke a remembered rule. Gives the others. */
  async revoke(ruleId: string): Promise<RuleInfo[]> {
    const list: RuleListFrame = await this.request({ type: "rules", action: "revoke", rule_id: ruleId }, (event) =>
      event.type === "rules" && event.rules.every((rule) => rule.rule_id !== ruleId),
    );
    return list.rules;
  }

  /** Show a file to the agent with every Request. Without content, the agent reads it when it needs it. */
  addFile(path: string, content?: string): Promise<ContextUpdatedFrame> {
    return this.#updateContext("add_file", { path, ...(content !== undefined && { content }) });
  }

  /** Show a file no longer. */
  removeFile(path: string): Promise<ContextUpdatedFrame> {
    return this.#updateContext("remove_file", { path });
  }

  /** Show no files. */
  clearFiles(): Promise<ContextUpdatedFrame> {
    return this.#updateContext("clear");
  }

  /**
   * Send any frame until an event that `accepts` it comes, which is given back. The server's `error` without a `seq`
   * rejects it. One request at a time is on its way; the others wait.
   */
  request<Reply extends SessionEvent>(frame: ClientFrame, accepts: Accepts): Promise<Reply> {
    return this.#conversation.request(frame, accepts);
  }

  /** Send any frame once, when the session is online. Settles when it is on its way, not when it has arrived. */
  send(frame: ClientFrame): Promise<void> {
    return this.#conversation.send(frame);
  }

  /** The field that a frame with a `payload_url` lacks: the arguments of a call, or the result of `tool_progress`. */
  download(frame: { payload_url?: string; payload_bytes?: number }): Promise<unknown> {
    return this.#conversation.download(frame);
  }

  #updateContext(action: "add_file" | "remove_file" | "clear", data?: { path: string; content?: string }) {
    const frame = { type: "context_update", action, ...(data && { data }) } as const;
    return this.request<ContextUpdatedFrame>(frame, (event) => event.type === "context_updated" && event.action === action);
  }
}
