import { newId } from "./address.ts";
import { SessionCore, type CoreOptions } from "./core.ts";
import type { SessionEvent, SessionEventOf } from "./events.ts";
import type {
  AckFrame,
  Attachment,
  ClientFrame,
  ContextUpdatedFrame,
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

/** A mode in which the agent acts. */
export type ActingMode = "manual" | "code" | "autonomous";

/**
 * A human's decision about a call. `edit` needs all arguments, not only the changed ones. `mode`: in which a plan is
 * carried out; absent: the one before `plan`.
 */
export type Answer =
  | { decision: "approve"; remember?: Remember; mode?: ActingMode }
  | { decision: "edit"; arguments: Record<string, unknown>; remember?: Remember; mode?: ActingMode }
  | { decision: "reject"; feedback?: string; remember?: Remember };

export interface PromptOptions {
  /** Images and texts for the model. The server checks them. */
  attachments?: readonly (Attachment | { [field in keyof Attachment]: unknown })[];
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
  readonly #core: SessionCore;

  constructor(options: CoreOptions) {
    this.#core = new SessionCore(options);
    const { sessionId, rest, wire } = this.#core;
    this.sessionId = sessionId;
    this.rest = rest;
    this.wire = wire;
  }

  /** Connect. Settles when everything missed has been replayed. */
  async open(): Promise<this> {
    await this.#core.open();
    return this;
  }

  /** Stop running calls, whose results say so, and close the connection. */
  close(): Promise<void> {
    return this.#core.close();
  }

  // -- what is known -------------------------------------------------------------------------------------------

  /** The last `session_info`. */
  get info(): SessionInfoFrame | undefined {
    return this.#core.info;
  }

  get status(): Status {
    return this.#core.status;
  }

  get agent(): string {
    return this.#core.agent;
  }

  get title(): string {
    return this.#core.title;
  }

  get plan(): PlanStep[] {
    return this.#core.plan;
  }

  /** Call `listener` for each event of a type, or for all with `*`. Returns what stops that. */
  on<Type extends SessionEvent["type"]>(type: Type, listener: (event: SessionEventOf<Type>) => void): () => void;
  on(type: "*", listener: (event: SessionEvent) => void): () => void;
  on(type: SessionEvent["type"] | "*", listener: (event: any) => void): () => void {
    return this.#core.subscribers.on(type, listener);
  }

  /** All events for one reader: since the session was opened for the first reader, from now on for others. */
  events(): AsyncIterableIterator<SessionEvent> {
    return this.#core.subscribers.events();
  }

  /** The calls that are known to be open, by `call_id`. */
  get openCalls(): ReadonlyMap<string, ToolCallFrame> {
    return this.#core.openCalls.byId;
  }

  /** The `seq` of the last frame that was shown. */
  get lastSeq(): number {
    return this.#core.lastSeq;
  }

  /** Whether the connection is open and everything missed has been replayed. */
  get isOnline(): boolean {
    return this.#core.isOnline;
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
      attachments: options.attachments,
      when_busy: options.whenBusy,
    } as ClientFrame; // what is undefined is not sent
    const accepted = this.request(frame).then(() => {});
    const turn = new Turn(id, accepted, (ended) => this.#core.turns.delete(ended));
    this.#core.turns.add(turn);
    return turn;
  }

  /** Decide about a call that needs approval. Rejects if the server refuses the decision; the call then keeps waiting. */
  answer(callId: string, answer: Answer): Promise<AckFrame> {
    this.#core.checkOpen();
    const reply = this.#core.answer(callId, answer);
    reply.catch(() => {});
    return reply;
  }

  /**
   * Stop the running turn, or a message that is on its way. `message`: stop only this one (a turn's `id`), in whatever
   * state it is; `queued`: also withdraw all messages that wait.
   */
  cancel({ message, queued }: { message?: string; queued?: boolean } = {}): Promise<AckFrame> {
    const { status, turnId, turns } = this.#core;
    const onItsWay = status === "idle" ? [...turns].findLast((turn) => !turn.isAccepted)?.id : undefined;
    const id = message ?? onItsWay;
    const running = { turn_id: turnId, queued: queued || undefined };
    return this.#now({ type: "cancel", ...(id === undefined ? running : { client_msg_id: id }) } as ClientFrame);
  }

  /** Take back a message that waits. */
  withdraw(message: string): Promise<AckFrame> {
    return this.#now({ type: "withdraw", client_msg_id: message });
  }

  /** Have the history compacted for the model. A `compacted` event tells the end. */
  compact(): Promise<AckFrame> {
    return this.request({ type: "compact" });
  }

  /** Let another agent answer from now on. */
  switchAgent(agent: string): Promise<AckFrame> {
    return this.request({ type: "switch_agent", agent_type: agent });
  }

  /**
   * Change the session's settings. Gives the session's state: its `mode` is another one than wanted if another client has
   * switched it meanwhile.
   */
  async configure(settings: Omit<SessionConfigFrame, "type">): Promise<SessionInfoFrame> {
    // What the user has seen of the mode: by the frames, or by a newer `session_info` whose frames are on their way.
    const { lastSeq, info: before } = this.#core;
    const seen = settings.mode && { last_seq: Math.max(lastSeq, before?.last_seq ?? 0) };
    const info = await this.request<SessionInfoFrame>({ type: "session_config", ...seen, ...settings });
    const wanted = settings.mode ?? settings.autonomy;
    // The user's word counts once the server keeps to it: later, somebody else may switch the session.
    const isAutonomous = wanted === "autonomous" && (info.mode ?? info.settings?.["autonomy"]) === "autonomous";
    if (wanted) await this.#core.recorded((decisions) => decisions.choseMode(isAutonomous ? wanted : "code"));
    return info;
  }

  /** The remembered rules. */
  async rules(): Promise<RuleInfo[]> {
    const { rules } = await this.request<RuleListFrame>({ type: "rules", action: "list" });
    await this.#core.recorded((decisions) => decisions.sawRules(rules));
    return rules;
  }

  /** Revoke a remembered rule. Gives the others. */
  async revoke(ruleId: string): Promise<RuleInfo[]> {
    const { rules } = await this.request<RuleListFrame>({ type: "rules", action: "revoke", rule_id: ruleId });
    await this.#core.recorded((decisions) => decisions.revoked(ruleId));
    return rules;
  }

  /** Show a file to the agent with every Request. Without content, the agent reads it when it needs it. */
  addFile(path: string, content?: string): Promise<ContextUpdatedFrame> {
    return this.#updateContext("add_file", { path, content });
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
   * Send any frame until its reply comes, which is given back; the server's `error` about it rejects. Frames are sent in
   * this order, each when those before it have their replies.
   */
  request<Reply extends SessionEvent>(frame: ClientFrame): Promise<Reply> {
    return this.#core.request(frame);
  }

  /** Send any frame once, when the session is online. Settles when it is on its way, not when it has arrived. */
  send(frame: ClientFrame): Promise<void> {
    return this.#core.send(frame);
  }

  /** The field that a frame with a `payload_url` lacks: the arguments of a call, or the result of `tool_progress`. */
  download(frame: { payload_url?: string; payload_bytes?: number }): Promise<unknown> {
    return this.#core.download(frame);
  }

  #updateContext(action: "add_file" | "remove_file" | "clear", data?: { path: string; content?: string | undefined }) {
    return this.request<ContextUpdatedFrame>({ type: "context_update", action, data } as ClientFrame);
  }

  /** Send a frame beside the others. Nobody needs to care about the reply. */
  #now(frame: ClientFrame): Promise<AckFrame> {
    this.#core.checkOpen();
    const reply = this.#core.request<AckFrame>(frame, false);
    reply.catch(() => {});
    return reply;
  }
}
