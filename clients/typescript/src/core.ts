import { checkedSessionId, newSessionId, parseAddress, socketUrl, type Address } from "./address.ts";
import { Asking } from "./asking.ts";
import { backOff } from "./backoff.ts";
import type { Calls } from "./calls.ts";
import { Connector } from "./connector.ts";
import type { Decisions } from "./decisions.ts";
import { SessionError, messageOf } from "./errors.ts";
import { readFrame, type SessionEvent } from "./events.ts";
import type { Journal, OpenJournal } from "./journal.ts";
import { Link, WireReport, type LinkEnd, type WebSocketConstructor } from "./link.ts";
import { loaded } from "./loaded.ts";
import { OpenCalls } from "./open_calls.ts";
import { INLINE_BYTES, MOST_BYTES, type Fetch, type SessionOptions, type Timing } from "./options.ts";
import type {
  AckFrame,
  ClientFrame,
  ErrorFrame,
  HitlDecisionFrame,
  PlanStep,
  ResumedFrame,
  ResyncRequiredFrame,
  SessionInfoFrame,
  Status,
  ToolCallFrame,
} from "./protocol.ts";
import { Rest } from "./rest.ts";
import { Sequence } from "./sequence.ts";
import { Subscribers } from "./subscribers.ts";
import type { Answer } from "./session.ts";
import { TIMING } from "./timing.ts";
import { currentToken, isValid, refreshAt, subject } from "./tokens.ts";
import type { Tool } from "./tools.ts";
import type { Turn } from "./turn.ts";
import type { Transfers } from "./transfers.ts";
import type { Wire } from "./wire.ts";

/** The tool that begins a subagent, whose calls come here too: the server executes it, and no client. */
const DELEGATE = "delegate";
/** The time between two questions for a newer token. */
const REFRESH_MS = 5_000;
/** How long the server may take to show that a doubtful connection works. */
const DOUBT_MS = 5_000;
/** After such a pause between two looks at the clock, the machine was asleep. */
const ASLEEP_MS = 90_000;

/**
 * Which frames may be sent: none during a pause after the gateway refused one, then only those of the handshake, until
 * it has ended.
 */
const NOTHING = 0;
const HANDSHAKE = 1;
const ALL = 2;

/** The parts of the session's state that are known about the open connection. */
interface Connection {
  link: Link;
  token: string;
  /** Shortens its life and its silence, so that many clients do not do the same at once. */
  early: number;
  /** When the last ping was sent, and how long its answer may take; 0: none was. */
  pingedAt: number;
  answerMs: number;
  /** `session_info` has not come, and `resume` follows it. */
  greeting: boolean;
  /** `resumed` has not come: which calls are open is not known. */
  resuming: boolean;
  /** The user knows that it is online. */
  announced: boolean;
  onlineAt: number;
  resumeSentAt: number;
  /** A token is not asked for before; Infinity: one is being asked for. */
  refreshAfter: number;
}

/** A session cannot do without a journal. */
export type CoreOptions = SessionOptions & { journal: OpenJournal };

/**
 * The machinery of a session: keeps a connection, takes frames in order, and sends again what may have been lost.
 * `Session` is its interface for users.
 */
export class SessionCore {
  readonly sessionId: string;
  readonly rest: Rest;
  /** What happens on the wire, for an inspector. */
  readonly wire: Wire;
  /** The last `session_info`. */
  info: SessionInfoFrame | undefined;
  status: Status = "idle";
  agent = "";
  title = "";
  plan: PlanStep[] = [];

  readonly #options: CoreOptions;
  readonly #address: Address;
  readonly #timing: Timing;
  readonly #fetch: Fetch;
  readonly #WebSocket: WebSocketConstructor;
  readonly #tools: Map<string, Tool>;
  readonly #report = new WireReport();
  readonly #asking: Asking;
  /** What uploads and downloads large frames, once it is loaded. */
  #transfers: Transfers | undefined;
  readonly #uploading = new Set<Promise<void>>();
  readonly subscribers = new Subscribers();
  readonly #connector: Connector;
  /** How long to wait after a failure at a time. */
  readonly #pause: (now: number, leastMs?: number) => number;
  readonly openCalls: OpenCalls;
  /** Those that want to see every event. */
  readonly turns = new Set<Turn>();
  readonly #waiting: (() => void)[] = [];
  /** Being opened, or open; undefined before that. */
  #journal: Promise<Journal> | undefined;
  #released: Promise<void> | undefined;
  #sequence = new Sequence<SessionEvent & { seq?: number; execute?: boolean }>(0);
  /** What executes calls, once it is loaded; undefined for a viewer. */
  #calls: Calls | undefined;
  /** Calls whose decision the server may not have. */
  readonly #deciding = new Set<string>();
  #connection: Connection | undefined;
  #opening: Promise<void> | undefined;
  #opened!: () => void;
  #failedToOpen!: (error: unknown) => void;
  /** The user's decisions. What executes calls is loaded with them. */
  readonly #decisions = loaded(() => this.#loadDecisions());
  readonly #loadTransfers = loaded(async () => {
    const { Transfers } = await import("./payloads.ts");
    return (this.#transfers = new Transfers({
      address: this.#address,
      fetch: this.#fetch,
      isPublic: this.#options.isPublic,
      ticketMs: this.#timing.openMs,
      report: this.#report,
      request: (bytes) => this.#send({ type: "upload_request", bytes }, HANDSHAKE), // `hello` may be large
    }));
  });
  /** What those are told who wait, or come later: why the session has ended. */
  #ended: Error | undefined;
  #turnId: string | undefined;
  #ticking: ReturnType<typeof setInterval> | undefined;
  #tickedAt = 0;
  /** Which frames may be sent. */
  #sending!: number;
  /** The answer to `refresh_token` has not come. */
  #renewing!: boolean;
  #retrying: ReturnType<typeof setTimeout> | undefined;
  /** The position that the last `resume` named, unless a pause or another connection has followed. */
  #resumedFrom: number | undefined;

  constructor(options: CoreOptions) {
    this.#options = options;
    this.#address = parseAddress(options.url, options.restUrl);
    this.sessionId = options.sessionId === undefined ? newSessionId() : checkedSessionId(options.sessionId);
    this.#timing = { ...TIMING, ...options.timing };
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    const WebSocket = options.WebSocket ?? (globalThis.WebSocket as WebSocketConstructor | undefined);
    if (!WebSocket) {
      throw new SessionError("invalid_address", "This platform has no WebSocket: pass that of the package ws");
    }
    this.#WebSocket = WebSocket;
    this.rest = new Rest(this.#address, () => this.#token(), this.#fetch);
    const { tools = {}, ownTools = [] } = options;
    this.#tools = new Map([...Object.entries(tools as Record<string, Tool>), ...ownTools.map((tool) => [tool.name, tool.execute] as const)]);
    this.#tools.delete(DELEGATE);
    this.#asking = new Asking(this.#timing.repeatMs, (frame) => this.#send(frame));
    this.openCalls = new OpenCalls({
      pauseMs: this.#timing.pauseMs,
      show: (event) => this.#show(event),
      execute: (call) => this.#execute(call),
      complete: async (call) => (await this.#loadTransfers()).withArguments(call),
    });
    this.#pause = backOff(this.#timing.pauseMs, this.#timing.longestPauseMs);
    this.#connector = new Connector({
      address: this.#address,
      rest: (token) => new Rest(this.#address, async () => token, this.#fetch),
      pause: this.#pause,
      token: () => this.#token(),
      connect: (token) => this.#connect(token),
      offline: (why, retryInMs, error) => this.#show({ type: "offline", why, retryInMs, error }),
    });
    if (options.onEvent) this.subscribers.on("*", options.onEvent);
    if (options.onWire) this.#report.on(options.onWire);
    this.wire = {
      on: this.#report.on,
      cut: () => this.#connection?.link.cut("the connection was cut"),
      replay: (seq) => this.#resume(seq),
    };
  }

  /** The `seq` of the last frame that was shown. */
  get lastSeq(): number {
    return this.#sequence.lastSeq;
  }

  /** Whether the connection is open and everything missed has been replayed. */
  get isOnline(): boolean {
    return this.#connection !== undefined && !this.#connection.resuming;
  }

  // -- asking --------------------------------------------------------------------------------------------------

  /** The running turn. */
  get turnId(): string | undefined {
    return this.#turnId;
  }

  /** Send a frame until its reply comes. `isOrdered`: after those before it have theirs. */
  request<Reply extends SessionEvent>(frame: ClientFrame, isOrdered = true): Promise<Reply> {
    try {
      this.checkOpen();
      if (encoded(frame).body.length > MOST_BYTES) {
        throw new SessionError("refused", `A frame may have ${MOST_BYTES} bytes`, "PAYLOAD_TOO_LARGE");
      }
    } catch (error) {
      return Promise.reject(error);
    }
    const reply = this.#asking.ask(frame, isOrdered);
    if (this.isOnline) this.#asking.send(1);
    return reply as Promise<Reply>;
  }

  /** Decide about a call. What is decided is recorded before the server gets it: only this call will be executed. */
  async answer(callId: string, answer: Answer): Promise<AckFrame> {
    const call = this.openCalls.byId.get(callId);
    this.#deciding.add(callId);
    await this.recorded((decisions) => decisions.answered(callId, answer, call));
    const { decision, remember } = answer;
    const frame = {
      type: "hitl_decision",
      call_id: callId,
      decision,
      modified_arguments: decision === "edit" ? answer.arguments : undefined,
      feedback: (decision === "reject" && answer.feedback) || undefined,
      remember: remember || undefined,
      mode: (decision !== "reject" && answer.mode) || undefined,
    } as HitlDecisionFrame; // what is undefined is not sent
    return this.request<AckFrame>(frame, false);
  }

  /** Record something about the user's decisions. A journal that cannot be written ends the session. */
  async recorded(record: (decisions: Decisions) => Promise<void> | void): Promise<void> {
    if (!this.#journal) return;
    const decisions = await this.#decisions();
    try {
      await record(decisions);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /** Send any frame once, when the session is online. Settles when it is on its way, not when it has arrived. */
  async send(frame: ClientFrame): Promise<void> {
    this.checkOpen();
    while (!this.isOnline) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
      this.checkOpen();
    }
    this.#send(frame);
  }

  /** The field that a frame with a `payload_url` lacks: the arguments of a call, or the result of `tool_progress`. */
  async download(frame: { payload_url?: string; payload_bytes?: number }): Promise<unknown> {
    return (await this.#loadTransfers()).download(frame);
  }

  // -- what is loaded when it is needed ------------------------------------------------------------------------

  /** Execute a call, if this client executes any. */
  #execute(call: ToolCallFrame): void {
    if (this.#calls) return this.#calls.take(call);
    if (this.#options.viewer) return;
    const connection = this.#connection;
    this.#decisions().then(
      () => this.#connection === connection && this.#calls?.take(call),
      (error: unknown) => this.#fail(error),
    );
  }

  async #loadDecisions(): Promise<Decisions> {
    const { Calls, Decisions } = await import("./executing.ts");
    const journal = await this.#journal!;
    const decisions = new Decisions(journal, this.#options);
    if (!this.#options.viewer && !this.#ended) {
      this.#calls = new Calls({
        tools: this.#tools,
        journal,
        send: (frame) => this.#send(frame),
        show: (event) => this.#show(event),
        fail: (error) => this.#fail(error),
        refusal: (call) => decisions.refusal(call),
        isOnline: () => this.isOnline,
      });
    }
    return decisions;
  }

  // -- opening and closing -------------------------------------------------------------------------------------

  /** Connect. Settles when everything missed has been replayed. */
  open(): Promise<void> {
    this.#opening ??= this.#open();
    return this.#opening;
  }

  async #open(): Promise<void> {
    const online = new Promise<void>((resolve, reject) => {
      this.#opened = resolve;
      this.#failedToOpen = reject;
    });
    online.catch(() => {});
    const { journal: openJournal, viewer, lastSeq, sessionId } = this.#options;
    try {
      const user = subject(await this.#token());
      this.checkOpen();
      this.#journal = openJournal(`${this.#address.socket}#${user}#${this.sessionId}`);
      const isNew = sessionId === undefined; // the journal knows nothing of it
      this.#sequence.restart(lastSeq ?? 0);
      const remembering = this.#journal.then(async (journal) => {
        if (!isNew && lastSeq === undefined) this.#sequence.restart(await journal.position());
        // Also for calls of an earlier page, which had tools.
        if (!viewer && (this.#tools.size || (await journal.unsettled()).length)) await this.#decisions();
      });
      remembering.catch(() => {});
      if (!isNew || this.#tools.size) await remembering;
      this.checkOpen();
      (globalThis as Partial<EventTarget>).addEventListener?.("online", this.#doubt);
      this.#connector.run().catch((error: unknown) => this.#fail(error));
      await Promise.all([remembering, online]);
      this.checkOpen();
    } catch (error) {
      this.#fail(error);
      await this.#release();
      throw this.#ended;
    }
  }

  /** Stop running calls, whose results say so, and close the connection. */
  async close(): Promise<void> {
    if (this.#ended) return;
    await this.#calls?.close().catch(() => {});
    await Promise.all(this.#uploading);
    this.#end(undefined);
    await this.#release();
  }

  /** Let other clients know that this one executes nothing any more. */
  #release(): Promise<void> {
    this.#released ??= (async () => {
      await this.#calls?.close();
      await (await this.#journal)?.close();
    })().catch(() => {});
    return this.#released;
  }

  #fail(error: unknown): void {
    if (!this.#ended) this.#end(error instanceof Error ? error : new SessionError("closed", messageOf(error)));
  }

  #end(error: Error | undefined): void {
    if (this.#ended) return;
    this.#show({ type: "ended", error });
    this.subscribers.end(error);
    const told = (this.#ended = error ?? new SessionError("closed", "The session is closed"));
    (globalThis as Partial<EventTarget>).removeEventListener?.("online", this.#doubt);
    this.#connector.stop();
    clearInterval(this.#ticking);
    this.#connection?.link.cut("the session ended");
    for (const turn of this.turns) turn.fail(told);
    this.#asking.fail(told);
    this.#transfers?.fail("the session ended");
    this.#failedToOpen?.(told);
    for (const tell of this.#waiting.splice(0)) tell();
    if (error) void this.#release();
  }

  /** Throws what ended the session, if it has ended. */
  checkOpen(): void {
    if (this.#ended) throw this.#ended;
  }

  // -- the connection ------------------------------------------------------------------------------------------

  /** The newest token, if nobody on the way can read it. */
  async #token(): Promise<string> {
    const token = await currentToken(this.#options.token);
    if (token && !this.#address.private && !this.#options.insecureToken) {
      const { shown } = this.#address;
      throw new SessionError("invalid_address", `Anybody on the way to ${shown} could read the token: use wss and https`);
    }
    return token;
  }

  /** Keep one connection until it has ended. */
  async #connect(token: string): Promise<LinkEnd> {
    const { openMs, tickMs } = this.#timing;
    const url = socketUrl(this.#address, this.sessionId, `extensions=1${this.#options.viewer ? "&viewer=1" : ""}`);
    this.#report.connection++;
    const link = new Link(this.#WebSocket, url, token ? ["codelab", `token.${token}`] : [], openMs, {
      open: () => {
        this.#report.report("open", "");
        this.#greet();
      },
      message: (data) => this.#receive(data),
    });
    this.#connection = {
      link,
      token,
      early: 0.9 + Math.random() * 0.1,
      pingedAt: 0,
      answerMs: 0,
      greeting: true,
      resuming: true,
      announced: false,
      onlineAt: 0,
      resumeSentAt: 0,
      refreshAfter: 0,
    };
    this.#sending = ALL;
    this.#renewing = false;
    this.#resumedFrom = undefined;
    this.openCalls.connected();
    this.#sequence.connected();
    this.#calls?.connected();
    this.#tickedAt = Date.now();
    this.#ticking = setInterval(() => this.#tick(), tickMs);
    const end = await link.ended;
    clearInterval(this.#ticking);
    clearTimeout(this.#retrying);
    this.#connection = undefined;
    this.#transfers?.fail("the connection broke");
    this.#report.report("close", `${end.code || ""} ${end.why}`.trim(), { bytes: 0 });
    return end;
  }

  #greet(): void {
    const { client, platform, capabilities, hello, ownTools, viewer } = this.#options;
    const names = Object.keys(this.#options.tools ?? {});
    const executes = !viewer && { tools_supported: names.length ? [DELEGATE, ...names] : names };
    const declared = ownTools && { tools: ownTools.map(({ execute: _, ...declaration }) => declaration) };
    const frame = {
      type: "hello",
      client: client ?? { name: "@codelab/client" },
      platform,
      ...hello,
      capabilities: { ...executes, ...declared, ...capabilities },
    } as ClientFrame;
    this.#send(frame, HANDSHAKE);
  }

  #resume(lastSeq = this.#sequence.lastSeq): void {
    const connection = this.#connection;
    if (!connection) return;
    // A server that lets no `resume` get anywhere is asked again after a pause.
    if (connection.resuming && lastSeq === this.#resumedFrom) return this.#busy(connection, "no progress");
    this.#behind(connection, Date.now());
    this.#sequence.asked(connection.resumeSentAt);
    this.#resumedFrom = lastSeq;
    this.#send({ type: "resume", last_seq: lastSeq }, HANDSHAKE);
  }

  /**
   * A frame was refused, and perhaps others with it: send nothing for a while, then only the handshake. Refusals during
   * the pause are of frames that were on their way: they make it no longer.
   */
  #busy(connection: Connection, why: string): void {
    if (!this.#sending) return;
    const now = Date.now();
    const retryInMs = this.#pause(now);
    this.#sending = NOTHING;
    this.#resumedFrom = undefined;
    connection.announced = false;
    this.#behind(connection, now + retryInMs);
    this.#show({ type: "busy", why, retryInMs });
    this.#retrying = setTimeout(() => this.#tryAgain(connection), retryInMs);
  }

  /** Send the frame of the handshake whose answer has not come, once. */
  #tryAgain(connection: Connection): void {
    this.#sending = HANDSHAKE;
    if (this.#renewing) this.#sendToken(connection);
    else if (connection.greeting) this.#greet();
    else this.#resume();
  }

  /** The server must catch us up; it has been asked, or will be, at a time. */
  #behind(connection: Connection, askedAt: number): void {
    connection.resuming = true;
    connection.resumeSentAt = askedAt;
    this.openCalls.resuming();
  }

  #sendToken(connection: Connection): void {
    this.#send({ type: "refresh_token", token: connection.token }, HANDSHAKE);
  }

  /** Do what has become due. */
  #tick(): void {
    const connection = this.#connection;
    if (!connection) return;
    const { link, early } = connection;
    const now = Date.now();
    const { openMs, pingMs, idlePingMs, lifetimeMs } = this.#timing;
    if (now - this.#tickedAt > ASLEEP_MS) this.#doubt();
    this.#tickedAt = now;
    const isPinged = connection.pingedAt > link.heardAt;
    const asked = connection.resuming && now - Math.max(link.heardAt, connection.resumeSentAt) > openMs;
    if (asked || (isPinged && now - connection.pingedAt > connection.answerMs)) return link.cut("the server does not answer");
    if (connection.resuming) return;
    if (this.#calls?.mustCheck(now) || this.#sequence.hasGap(now)) this.#resume();
    if (!this.#uploading.size && connection.refreshAfter < Infinity) this.#asking.tick(now);
    const isIdle = this.status === "idle" && !this.#calls?.areRunning;
    if (!isPinged && now - link.heardAt > (isIdle ? idlePingMs * early : pingMs)) this.#ping(connection, openMs);
    if (now - connection.onlineAt > lifetimeMs * early * (isIdle ? 1 : 1.05)) {
      this.#connector.replace();
      link.cut("a new connection replaces this one");
      return;
    }
    const due = typeof this.#options.token === "function" ? refreshAt(connection.token) : NaN;
    if (now > Math.max(due, connection.refreshAfter)) void this.#refresh(connection);
  }

  /** Give the server a newer token, if there is one. */
  async #refresh(connection: Connection): Promise<void> {
    if (connection.refreshAfter === Infinity) return;
    connection.refreshAfter = Infinity;
    try {
      const token = await this.#token().catch((error: unknown) => {
        // Its source may be out of reach for the moment: ask again, as long as the connection's token is valid.
        if (error instanceof SessionError || !isValid(connection.token)) throw error;
        this.#show({ type: "ignored", why: `There is no newer token: ${messageOf(error)}` });
        return connection.token;
      });
      if (this.#connection !== connection) return;
      if (token === connection.token) {
        if (!isValid(token)) throw new SessionError("unauthorized", "The token has expired");
        return;
      }
      connection.token = token;
      connection.greeting = this.#renewing = true;
      this.#behind(connection, Date.now());
      this.#sendToken(connection);
      this.#asking.hurry(); // what was refused because of the old token
    } catch (error) {
      this.#fail(error instanceof SessionError ? error : new SessionError("unauthorized", messageOf(error)));
    } finally {
      connection.refreshAfter = Date.now() + REFRESH_MS;
    }
  }

  /** The machine slept, or its network changed: see whether the connection has outlived it. */
  readonly #doubt = (): void => {
    this.#connector.hurry();
    const connection = this.#connection;
    if (connection && this.isOnline) this.#ping(connection, DOUBT_MS);
  };

  /** See whether the server answers in time. */
  #ping(connection: Connection, answerMs: number): void {
    const { link, pingedAt } = connection;
    connection.answerMs = answerMs;
    if (pingedAt > link.heardAt) return; // it has been asked
    connection.pingedAt = Date.now();
    this.#send({ type: "ping" });
  }

  // -- receiving -----------------------------------------------------------------------------------------------

  /** Take one message of the server. */
  #receive(data: unknown): void {
    let event: SessionEvent;
    let frame: Record<string, unknown> | undefined;
    const text = typeof data === "string" ? data : "";
    try {
      if (typeof data !== "string") throw new Error("binary data");
      const found: unknown = JSON.parse(data);
      if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("no JSON object");
      frame = found as Record<string, unknown>;
      event = readFrame(frame);
    } catch (error) {
      this.#report.report("in", text, { fate: "malformed", frame });
      this.#show({ type: "ignored", why: `The server sent a malformed frame: ${messageOf(error)}` });
      return;
    }
    const seq = frame["seq"] as number | undefined;
    if (!seq) {
      this.#report.report("in", text, { fate: "reply", frame });
      this.#takeReply(event);
      return;
    }
    const after = this.#sequence.lastSeq;
    const ready = this.#sequence.take(event, seq, Date.now());
    const fate = !ready ? "repeat" : ready.length ? "next" : "early";
    this.#report.report("in", text, { fate, frame, after: fate === "early" ? after : undefined });
    if (!ready && event.type === "tool_call") this.openCalls.takeRepeated(event);
    for (const next of ready ?? []) this.#apply(next);
  }

  /** Take a frame that answers one of this connection's. */
  #takeReply(event: SessionEvent): void {
    const connection = this.#connection;
    if (!connection) return;
    switch (event.type) {
      case "session_info":
        this.info = event;
        this.status = event.status;
        this.agent = event.agent;
        this.title = event.title;
        this.plan = event.plan;
        this.#turnId = event.turn_id;
        if (connection.greeting) {
          connection.greeting = this.#renewing = false;
          this.openCalls.takePending(event.pending_calls);
          this.#resume();
          return this.#show(event); // the answer to `hello`, not to what was asked
        }
        break;
      case "resumed":
        this.#show(event);
        return this.#resumed(connection, event);
      case "resync_required":
        this.#resync(connection, event);
        break;
      case "upload_ticket":
        return this.#transfers?.ticket(event);
      case "tool_call":
        return this.openCalls.take(event);
      case "error":
        if (this.#takeError(connection, event)) return;
        break;
      case "gateway_error":
        this.#transfers?.fail(event.message);
        this.#busy(connection, event.message);
        break;
      default:
    }
    this.#asking.answer(event);
    this.#show(event);
  }

  /** Take the next frame of the conversation. */
  #apply(event: SessionEvent): void {
    this.#asking.answer(event);
    switch (event.type) {
      case "agent_status":
        this.status = event.status;
        if (event.status === "idle") this.#turnId = undefined;
        break;
      case "assistant_message":
        this.#turnId = event.turn_id;
        break;
      case "agent_switched":
        this.agent = event.to_agent;
        break;
      case "mode_switched":
        if (this.info) this.info = { ...this.info, mode: event.to_mode };
        break;
      case "plan":
        this.plan = event.items;
        break;
      case "turn_end":
        this.#turnId = undefined;
        this.title = event.title || this.title;
        this.openCalls.turnEnded(event.turn_id);
        this.#keepPosition();
        break;
      case "call_update":
        this.openCalls.settled(event.call_id);
        this.#calls?.settled(event.call_id).catch((error: unknown) => this.#fail(error));
        break;
      case "tool_call":
        this.#turnId = event.turn_id ?? this.#turnId;
        if (!event.requires_approval) this.#deciding.delete(event.call_id);
        return this.openCalls.take(event);
      default:
    }
    this.#show(event);
  }

  /** Record where a later client goes on: never behind an open call, because it would not see the call. */
  #keepPosition(): void {
    if (!this.openCalls.byId.size) {
      const { lastSeq } = this.#sequence;
      this.#journal?.then((journal) => journal.setPosition(lastSeq)).catch((error: unknown) => this.#fail(error));
    }
  }

  #resumed(connection: Connection, event: ResumedFrame): void {
    if (!this.#sending) return; // frames sent after it were refused: it is asked for again
    if (event.more) return this.#resume();
    if (this.#sending < ALL) this.#asking.hurry(); // they may have been accepted: repeats have the same ids
    this.#sending = ALL;
    connection.resuming = false;
    const again = this.#connector.wasOnline;
    this.#connector.online();
    const open = this.openCalls.resumed(event);
    if (!connection.announced) {
      connection.announced = true;
      connection.onlineAt ||= Date.now();
      this.#show({ type: "online", again });
    }
    this.#opened();
    for (const tell of this.#waiting.splice(0)) tell();
    // Repeat what may have been lost with the connection before. Repeats have no effect.
    this.#asking.send(connection.link.openedAt);
    this.#calls?.reconcile(event.last_seq, open).catch((error: unknown) => this.#fail(error));
  }

  /** The log does not have the frames after the client's position. */
  #resync(connection: Connection, event: ResyncRequiredFrame): void {
    const isOtherSession = event.last_seq < this.#sequence.lastSeq;
    if (isOtherSession) {
      // It was deleted, and there is a new one with its id.
      this.#journal?.then((journal) => journal.forget()).catch((error: unknown) => this.#fail(error));
    }
    this.openCalls.byId.clear();
    this.#sequence.restart(isOtherSession ? 0 : event.last_seq);
    connection.greeting = true;
    this.#greet(); // then `resume`
  }

  /** The server refused a frame. Gives whether somebody waits for the reply, and is told. */
  #takeError(connection: Connection, event: ErrorFrame): boolean {
    if (event.error_code === "SESSION_EXPIRED") {
      void this.#refresh(connection);
    } else if (event.error_code === "UNAUTHORIZED") {
      connection.link.cut("the server does not accept the token any more"); // the next connection tells
    } else {
      const callId = event.call_id ?? "";
      if (this.#deciding.delete(callId)) void this.recorded((decisions) => decisions.refused(callId)).catch(() => {});
      if (event.call_id !== undefined) this.#calls?.refused(event).catch((error: unknown) => this.#fail(error));
      return this.#asking.refused(event) || !!this.#transfers?.refused(event);
    }
    return false;
  }

  // -- sending -------------------------------------------------------------------------------------------------

  /**
   * Send a frame on the current connection, a large one by reference. Drop it if there is none, or if frames like it
   * (`kind`) may not be sent now: they are repeated after `resumed`.
   */
  #send(frame: ClientFrame, kind = ALL): void {
    const link = this.#connection?.link;
    if (!link || this.#sending < kind) return;
    const { text, body } = encoded(frame);
    if (body.length <= INLINE_BYTES) return this.#post(frame, text);
    const uploading = this.#loadTransfers()
      .then((transfers) => transfers.upload(frame, body))
      .then(
        (short) => {
          if (this.#sending >= kind) this.#post(short);
        },
        (error: unknown) => {
          this.#show({ type: "ignored", why: `A large frame could not be uploaded: ${messageOf(error)}` });
          // In other cases, whoever waits for a reply sends again.
          if (error instanceof SessionError && error.kind === "refused") this.#asking.failed(frame, error);
        },
      )
      .finally(() => this.#uploading.delete(uploading));
    this.#uploading.add(uploading);
  }

  #post(frame: object, text = JSON.stringify(frame)): void {
    if (this.#connection?.link.send(text)) this.#report.report("out", text, { frame: frame as Record<string, unknown> });
  }

  // -- showing -------------------------------------------------------------------------------------------------

  #show(event: SessionEvent): void {
    if (this.#ended) return;
    for (const turn of this.turns) turn.take(event);
    this.subscribers.show(event);
  }
}

function encoded(frame: ClientFrame): { text: string; body: Uint8Array<ArrayBuffer> } {
  const text = JSON.stringify(frame, wellFormed);
  return { text, body: new TextEncoder().encode(text) };
}

/** A string as UTF-8 can carry it: half of a surrogate pair becomes U+FFFD. */
function wellFormed(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\uFFFD") : value;
}
